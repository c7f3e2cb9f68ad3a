"""A topic on Kafka, through Spark's connector."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.binding.connectors import need
from kaspr_delta.engine.rows.sequence import MOST_TASKS
from kaspr_delta.plan.definition.bindings import KafkaPlan, LoginPlan
from kaspr_delta.secrets import password_of
from kaspr_delta.storage.layout import PROBLEM

# Spark's sink cannot set the time of a record, so a header carries the event's time: milliseconds as text.
TIMESTAMP_HEADER = "kaspr-timestamp"
# A backlog is read in pieces, so that a kill costs one of them.
_MOST_RECORDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Kafka:
    """A topic on Kafka: keys and values as bytes, headers, timestamps, partitions."""

    plan: KafkaPlan
    topic: str
    on_databricks: bool

    @property
    def order(self) -> tuple[str, ...]:
        return ("partition", "source_offset")

    @property
    def options(self) -> dict[str, str]:
        """The options with which the connector reaches the brokers. They contain the password: do not show them.

        Raises SetupError if the password cannot be found.
        """
        login, tls = self.plan.login, self.plan.tls
        protocol = ("SASL_" if login else "") + ("SSL" if tls else "PLAINTEXT")
        options = {"kafka.bootstrap.servers": self.plan.bootstrap_servers, "kafka.security.protocol": protocol}
        if self.plan.ca_file is not None:
            options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": self.plan.ca_file}
        if login is not None:
            options |= {"kafka.sasl.mechanism": login.mechanism, "kafka.sasl.jaas.config": self._jaas(login)}
        return options

    def stream(self, spark: SparkSession) -> DataFrame:
        need(spark, "kafka")
        return (
            spark.readStream.format("kafka")
            .options(**self.options)
            .option("subscribe", self.plan.topic)
            .option("startingOffsets", self.plan.starting_offsets)
            .option("failOnDataLoss", str(self.plan.fail_on_data_loss).lower())
            .option("includeHeaders", "true")
            # Skip the records of aborted transactions.
            .option("kafka.isolation.level", "read_committed")
            .option("maxOffsetsPerTrigger", str(_MOST_RECORDS))
            .load()
        )

    def records(self, batch: DataFrame) -> DataFrame:
        headers = F.filter("headers", lambda header: header["key"] != TIMESTAMP_HEADER)
        # Each partition of Kafka is a task.
        return batch.coalesce(MOST_TASKS).select(
            F.lit("send").alias("kind"),
            F.lit(self.topic).alias("target"),
            "key",
            "value",
            F.when(F.size(headers) > 0, headers).alias("headers"),
            F.coalesce(_sent_timestamp(), F.col("timestamp")).alias("timestamp"),
            "partition",
            F.lit(None).cast(PROBLEM).alias("problem"),
            F.concat(F.lit("kafka:"), F.col("topic")).alias("source"),
            F.col("offset").alias("source_offset"),
        )

    def write(self, records: DataFrame, batch: str) -> None:
        """Send records to the partitions that Kafka's own clients would choose for their keys. At-least-once."""
        need(records.sparkSession, "kafka")
        at = F.encode(F.unix_millis("timestamp").cast("string"), "UTF-8")
        stamp = F.array(F.struct(F.lit(TIMESTAMP_HEADER).alias("key"), at.alias("value")))
        stamped = F.concat(F.coalesce("headers", F.filter(stamp, lambda _: F.lit(False))), stamp)
        with_time = F.when(F.col("timestamp").isNull(), F.col("headers")).otherwise(stamped)
        sent = records.select("key", "value", with_time.alias("headers"))
        writer = sent.write.format("kafka").options(**self.options).option("includeHeaders", "true")
        writer.option("topic", self.plan.topic).save()

    def _jaas(self, login: LoginPlan) -> str:
        prefix = "kafkashaded." if self.on_databricks else ""
        name = "plain.PlainLoginModule" if login.mechanism == "PLAIN" else "scram.ScramLoginModule"
        username, password = _quoted(login.username), _quoted(password_of(login.password))
        module = f"{prefix}org.apache.kafka.common.security.{name}"
        return f"{module} required username={username} password={password};"


def _sent_timestamp() -> Column:
    """The time in the header that the export of another application added; NULL without it."""
    given = F.filter("headers", lambda header: header["key"] == TIMESTAMP_HEADER)
    millis = F.try_element_at(given, F.lit(-1))["value"]
    return F.timestamp_millis(millis.cast("string").try_cast("bigint"))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

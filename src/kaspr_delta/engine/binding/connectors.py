"""Spark's connectors for Kafka and Avro: added to a local session when an application needs them, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaspr_delta.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCALA = "2.13"
# Not every mirror of Maven Central has the newest of these small ones: an older one that fits is taken then.
_OLDER = {"spark-avro": ("4.1.1",), "spark-token-provider-kafka-0-10": ("4.1.0-preview1",)}
# Of what the connector for Kafka needs, what is added by itself, and what Spark has.
_LEFT_OUT = (
    f"org.apache.spark:spark-token-provider-kafka-0-10_{_SCALA}",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.slf4j:slf4j-api",
)
_ARTIFACTS = {
    "kafka": {
        "spark-token-provider-kafka-0-10": "transitive=false",
        # The last: by it Spark knows the format.
        "spark-sql-kafka-0-10": f"exclude={','.join(_LEFT_OUT)}",
    },
    "avro": {"spark-avro": "transitive=false"},
}
# The version of each that was found, in this process.
_found: dict[str, str] = {}


def need(spark: SparkSession, name: str) -> None:
    """Let this thread read and write a format, by its connector if it has one. Raises SetupError.

    Where Spark knows the format, as it does on Databricks, nothing is done. A thread of Spark's knows what was added in
    it, or in the thread that started it: so whoever reads or writes asks for it, each time.
    """
    if name in _ARTIFACTS and not _knows(spark, name):
        for artifact, how in _ARTIFACTS[name].items():
            _add(spark, name, artifact, how)


def _knows(spark: SparkSession, name: str) -> bool:
    try:
        _ = spark.read.format(name).load().schema
    except Exception as error:  # noqa: BLE001  whatever it is, it tells
        # Without options every connector complains; of one that is not there Spark says so.
        text = str(error)
        return not any(sign in text for sign in ("DATA_SOURCE_NOT_FOUND", "Failed to find data source", "deployment"))
    return True


def _add(spark: SparkSession, name: str, artifact: str, how: str) -> None:
    failure: Exception | None = None
    for version in dict.fromkeys((_found.get(artifact, spark.version), spark.version, *_OLDER.get(artifact, ()))):
        coordinates = f"org.apache.spark:{artifact}_{_SCALA}:{version}"
        try:
            spark.sql(f"ADD JAR ivy://{coordinates}?{how}").collect()
        except Exception as error:  # noqa: BLE001  Ivy's is none of Spark's own
            failure = error
        else:
            _found[artifact] = version
            return
    msg = (
        f"Spark's connector for {name} cannot be had from Maven (org.apache.spark:{artifact}_{_SCALA}:{spark.version}):"
        " is Maven Central reached? Or start Spark with its jars, as in spark.jars, and bring that session"
    )
    raise SetupError(msg) from failure

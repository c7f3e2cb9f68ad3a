"""Spark's connectors for Kafka and Avro: added to a local session only when an application needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaspr_delta.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCALA = "2.13"
# Not every mirror of Maven Central has the newest version of these small artifacts: then these older ones, which work
# too, are used.
_OLDER = {"spark-avro": ("4.1.1",), "spark-token-provider-kafka-0-10": ("4.1.0-preview1",)}
# Dependencies of the Kafka connector that are left out: the first is added separately, the others are part of Spark.
_LEFT_OUT = (
    f"org.apache.spark:spark-token-provider-kafka-0-10_{_SCALA}",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.slf4j:slf4j-api",
)
_ARTIFACTS = {
    "kafka": {
        "spark-token-provider-kafka-0-10": "transitive=false",
        # Added last: Spark knows the format from then on.
        "spark-sql-kafka-0-10": f"exclude={','.join(_LEFT_OUT)}",
    },
    "avro": {"spark-avro": "transitive=false"},
}
# The version of each artifact that this process found.
_found: dict[str, str] = {}


def need(spark: SparkSession, name: str) -> None:
    """Let this thread read and write a format: add the format's connector, if it has one. Raises SetupError.

    If Spark knows the format, as it does on Databricks, nothing is done. A thread knows the connectors that were added
    in it, or in the thread that started it. So every read and write calls this function first.
    """
    if name in _ARTIFACTS and not _knows(spark, name):
        for artifact, how in _ARTIFACTS[name].items():
            _add(spark, name, artifact, how)


def _knows(spark: SparkSession, name: str) -> bool:
    try:
        _ = spark.read.format(name).load().schema
    except Exception as error:  # noqa: BLE001  the message decides
        # Without options every connector fails; a missing connector fails with one of these messages.
        text = str(error)
        return not any(sign in text for sign in ("DATA_SOURCE_NOT_FOUND", "Failed to find data source", "deployment"))
    return True


def _add(spark: SparkSession, name: str, artifact: str, how: str) -> None:
    failure: Exception | None = None
    for version in dict.fromkeys((_found.get(artifact, spark.version), spark.version, *_OLDER.get(artifact, ()))):
        coordinates = f"org.apache.spark:{artifact}_{_SCALA}:{version}"
        try:
            spark.sql(f"ADD JAR ivy://{coordinates}?{how}").collect()
        except Exception as error:  # noqa: BLE001  Ivy's errors are not Spark's own
            failure = error
        else:
            _found[artifact] = version
            return
    msg = (
        f"Spark's connector for {name} cannot be had from Maven (org.apache.spark:{artifact}_{_SCALA}:{spark.version}):"
        " is Maven Central reached? Or start Spark with its jars, as in spark.jars, and bring that session"
    )
    raise SetupError(msg) from failure

"""Spark's connectors for Kafka and Avro: added to a local session when an application needs them, and not before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kaspr_delta.errors import SetupError
from kaspr_delta.plan.application_plan import Plan
from kaspr_delta.plan.binding_plans import KafkaPlan

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


def formats_of(plan: Plan) -> tuple[str, ...]:
    """The formats of topics elsewhere that Spark knows only by a connector."""
    places = [topic.binding.place for topic in plan.topics if topic.binding]
    kafka = any(isinstance(place, KafkaPlan) for place in places)
    avro = any(not isinstance(place, KafkaPlan) and place.format == "avro" for place in places)
    return (*(["kafka"] if kafka else []), *(["avro"] if avro else []))


def add_connectors(spark: SparkSession, formats: Iterable[str]) -> None:
    """Let a session read and write these formats. Where it already can, as on Databricks, nothing is done.

    Raises SetupError when a connector cannot be had.
    """
    for name in formats:
        if not _knows(spark, name):
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
    for version in (spark.version, *_OLDER.get(artifact, ())):
        coordinates = f"org.apache.spark:{artifact}_{_SCALA}:{version}"
        try:
            spark.sql(f"ADD JAR ivy://{coordinates}?{how}").collect()
        except Exception as error:  # noqa: BLE001  Ivy's is none of Spark's own
            failure = error
        else:
            return
    msg = (
        f"Spark's connector for {name} cannot be had from Maven (org.apache.spark:{artifact}_{_SCALA}:{spark.version}):"
        " is Maven Central reached? Or start Spark with its jars, as in spark.jars, and bring that session"
    )
    raise SetupError(msg) from failure

"""The endpoint that a topic is bound to, as ingest and export use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kaspr_delta.engine.binding.files import Files
from kaspr_delta.engine.binding.kafka import Kafka
from kaspr_delta.plan.definition.bindings import KafkaPlan
from kaspr_delta.plan.definition.resources import TopicPlan
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Endpoint(Protocol):
    """A topic on Kafka, or a folder of files."""

    @property
    def order(self) -> tuple[str, ...]:
        """The columns of ``records`` that give the order of the records in the endpoint."""

    def stream(self, spark: SparkSession) -> DataFrame:
        """All rows of the endpoint, as a stream."""

    def records(self, batch: DataFrame) -> DataFrame:
        """Rows of that stream as records or dead letters: the columns of an ingest's log but ``seq``, and ``order``.

        The rows of a large batch are in order.
        """

    def write(self, records: DataFrame, batch: str) -> None:
        """Write rows of a topic, sorted within each partition. ``batch`` is their name; a batch may be repeated."""


def endpoint_of(delta: Tables, topic: TopicPlan) -> Endpoint:
    """The endpoint of a bound topic."""
    endpoint, on_databricks = topic.bound.endpoint, delta.namespace.on_databricks
    if isinstance(endpoint, KafkaPlan):
        return Kafka(endpoint, topic.name, on_databricks=on_databricks)
    return Files(endpoint, topic.name, topic.partitions, on_databricks=on_databricks)

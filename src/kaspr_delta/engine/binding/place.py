"""Where records come from and go to, as ingest and export see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kaspr_delta.engine.binding.files import Files
from kaspr_delta.engine.binding.kafka import Kafka
from kaspr_delta.plan.definition.bindings import KafkaPlan
from kaspr_delta.plan.definition.resources import TopicPlan
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Place(Protocol):
    """A topic on Kafka, or a folder of files."""

    @property
    def order(self) -> tuple[str, ...]:
        """The columns of ``records`` that tell the order in which they were there."""
        ...

    def stream(self, spark: SparkSession) -> DataFrame:
        """All that is there, as a stream."""
        ...

    def records(self, batch: DataFrame) -> DataFrame:
        """Rows of that stream as records or dead letters: the columns of the log of an ingest but ``seq``, and order.

        In a large batch they stand in their order.
        """
        ...

    def write(self, records: DataFrame, batch: str) -> None:
        """Put rows of a topic there, given by partition in their order. ``batch`` names them; it may come again."""
        ...


def place_of(delta: Tables, topic: TopicPlan) -> Place:
    """Where a bound topic lives."""
    place, on_databricks = topic.bound.place, delta.namespace.on_databricks
    if isinstance(place, KafkaPlan):
        return Kafka(place, topic.name, on_databricks=on_databricks)
    return Files(place, topic.name, topic.partitions, on_databricks=on_databricks)

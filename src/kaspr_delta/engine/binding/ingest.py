"""The ingest of a bound topic, as a resource: records from Kafka or files are appended to the Delta topic once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kaspr_delta.engine.agent.pipeline import EffectResource
from kaspr_delta.engine.batch.checkpoint import Start
from kaspr_delta.engine.batch.decision import Decision, Folded, SourceTable
from kaspr_delta.engine.batch.resource import Begun
from kaspr_delta.engine.binding.endpoint import endpoint_of
from kaspr_delta.engine.rows.local_rows import LocalRows, rows_within
from kaspr_delta.engine.rows.sequence import seq_of_rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.plan.definition.resources import TopicPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = ["kind", "target", "key", "value", "headers", "timestamp", "partition", "problem", "source", "source_offset"]


class Ingest(EffectResource[TopicPlan]):
    """Reads an endpoint until all records that it had at the start of a run are on the topic, or for ever.

    The position is in the checkpoint of Spark's stream, which delivers the same records again after a kill.
    """

    __slots__ = ()

    def sources(self, spark: SparkSession) -> Mapping[str, SourceTable]:
        return {self.plan.bound.endpoint.label: SourceTable(None)}

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        return Decision(LocalRows.none(spark), 0), dict.fromkeys(self.sources(spark), 0)

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        return endpoint_of(self.delta, self.plan).stream(spark)

    def decide(self, changes: DataFrame, state: Mapping[str, Any]) -> Decision:
        """The records as bytes, which readers of the topic decode. Rows of files may become dead letters instead."""
        endpoint = endpoint_of(self.delta, self.plan)
        records = endpoint.records(changes)
        arrived = rows_within(records, self.delta.limits.few)
        if isinstance(arrived, LocalRows):
            return Decision(arrived.numbered(*endpoint.order).select(*_COLUMNS, "seq"), arrived.count())
        # Rows in Spark are in order already.
        return Decision(SparkRows(records.select(*_COLUMNS, seq_of_rows())), arrived.count())

    def numbers(self, counts: Mapping[tuple[Any, ...], int]) -> Folded:
        # Others sent these records: they do not count as sent by the application.
        return replace(super().numbers(counts), counts={})

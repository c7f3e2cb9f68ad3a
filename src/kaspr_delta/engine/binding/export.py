"""The export of a bound topic, as a resource: it reads the Delta topic, and its fold writes to Kafka or files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId, Start
from kaspr_delta.engine.batch.decision import Decision, Folded, LoggedBatch, SourceTable
from kaspr_delta.engine.batch.resource import Begun, Resource
from kaspr_delta.engine.binding.endpoint import endpoint_of
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.streams.source import Source
from kaspr_delta.plan.definition.bindings import KafkaPlan
from kaspr_delta.plan.definition.resources import TopicInput, TopicPlan


class Export(Resource[TopicPlan]):
    """Decides which records are due. The fold writes them after the commit, and again if it was killed in between.

    A batch is all records after one offset, up to and including another. A topic is append-only, so these records are
    always the same.
    """

    __slots__ = ()

    @property
    def _source(self) -> Source:
        endpoint = self.plan.bound.endpoint
        start = endpoint.starting_offsets if isinstance(endpoint, KafkaPlan) else "earliest"
        read = TopicInput((self.plan.name,), None, self.plan.serializers, start)
        return Source(self.delta, read, self.application, str(self.ref))

    def sources(self, spark: SparkSession) -> Mapping[str, SourceTable]:
        return {self.plan.name: SourceTable(self._source.table(self.plan.name), by_offset=True)}

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        """An empty decision: the topic is read from the position that the previous checkpoint had reached."""
        positions = self._source.positions(spark, self.reached(state) if state else {})
        return Decision(LocalRows.none(spark), 0, {"done": positions[self.plan.name]}), positions

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        return self._source.stream(spark, start.positions, self.delta.limits.ordered_batch)

    def reached(self, state: Mapping[str, Any]) -> Mapping[str, int]:
        return {self.plan.name: state["done"]}

    def decide(self, changes: DataFrame, state: Mapping[str, Any]) -> Decision:
        found = changes.agg(F.max("offset").alias("last"), F.count("*").alias("records")).collect()[0]
        after, last = int(state["done"]), found["last"]
        # A commit of several files may come in several batches: an earlier one may have taken all up to this offset.
        if last is None or last <= after:
            return Decision(LocalRows.none(changes.sparkSession), 0, state)
        due = pa.table({"after": [after], "upto": [last], "records": [found["records"]]})
        return Decision(LocalRows(changes.sparkSession, due), found["records"], {"done": last})

    def fold(self, batches: Sequence[LoggedBatch], *, with_state: bool = True) -> Sequence[Folded]:
        return [self._write(batch, rows) for batch, rows in batches]

    def _write(self, batch: BatchId, rows: Rows) -> Folded:
        name, written = self.plan.name, 0
        for due in rows.df.select("after", "upto", "records").collect():
            records = self._source.between(rows.spark, {name: due["after"]}, {name: due["upto"]})
            ordered = records.repartition("partition").sortWithinPartitions("offset")
            endpoint_of(self.delta, self.plan).write(ordered, f"{batch.checkpoint}-{batch.number:010d}")
            written += due["records"]
        return Folded(written, 0)

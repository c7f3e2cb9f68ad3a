"""Bound topics as resources.

The ingest appends the records of Kafka or files to the Delta topic, once. The export reads the Delta topic, and its
fold writes the records to Kafka or files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.agent.pipeline import EffectResource
from kaspr_delta.engine.batch.checkpoint import BatchId, Start
from kaspr_delta.engine.batch.decision import Decision, Folded, LoggedBatch
from kaspr_delta.engine.batch.resource import Begun, Resource
from kaspr_delta.engine.binding.files import Files
from kaspr_delta.engine.binding.kafka import Kafka
from kaspr_delta.engine.rows.local_rows import LocalRows, rows_within
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.sequence import seq_of_rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.streams.source import Source
from kaspr_delta.plan.definition.bindings import KafkaPlan
from kaspr_delta.plan.definition.resources import TopicInput, TopicPlan
from kaspr_delta.storage.tables import Tables

Endpoint: TypeAlias = Kafka | Files
"""A topic on Kafka, or a folder of files.

``stream``: all its rows, as a stream. ``records``: rows of that stream as records or dead letters, with the columns of
an ingest's log but ``seq``, and those of ``order``, which give the order of the records in the endpoint; the rows of a
large batch are in order. ``write``: writes rows of a topic, sorted within each partition, under the name of their
batch, which may be repeated.
"""


def endpoint_of(delta: Tables, topic: TopicPlan) -> Endpoint:
    """The endpoint of a bound topic."""
    endpoint, on_databricks = topic.bound.endpoint, delta.namespace.on_databricks
    if isinstance(endpoint, KafkaPlan):
        return Kafka(endpoint, topic.name, on_databricks=on_databricks)
    return Files(endpoint, topic.name, topic.partitions, on_databricks=on_databricks)


# The columns of an ingest's log but ``seq``.
_COLUMNS = ["kind", "target", "key", "value", "headers", "timestamp", "partition", "problem", "source", "source_offset"]


class Ingest(EffectResource[TopicPlan]):
    """Reads an endpoint until all records that it had at the start of a run are on the topic, or for ever.

    The position is in the checkpoint of Spark's stream, which delivers the same records again after a kill.
    """

    __slots__ = ()

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        return Decision(LocalRows.none(spark), 0), dict.fromkeys(self.sources(spark), 0)

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        return endpoint_of(self.delta, self.plan).stream(spark)

    def decide(self, changes: Rows, state: Mapping[str, Any]) -> Decision:
        """The records as bytes, which readers of the topic decode. Rows of files may become dead letters instead."""
        endpoint = endpoint_of(self.delta, self.plan)
        records = endpoint.records(changes.df)
        arrived = rows_within(records, self.delta.limits.few)
        if isinstance(arrived, LocalRows):
            return Decision(arrived.numbered(*endpoint.order).select(*_COLUMNS, "seq"), arrived.count())
        # Rows in Spark are in order already.
        return Decision(SparkRows(records.select(*_COLUMNS, seq_of_rows())), arrived.count())

    def numbers(self, counts: Mapping[tuple[Any, ...], int]) -> Folded:
        # Others sent these records: they do not count as sent by the application.
        return replace(super().numbers(counts), counts={})


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

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        """An empty decision: the topic is read from the position that the previous checkpoint had reached."""
        positions = self._source.positions(spark, self.reached(state) if state else {})
        return Decision(LocalRows.none(spark), 0, {"done": positions[self.plan.name]}), positions

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        return self._source.stream(spark, start.positions, self.delta.limits.ordered_batch)

    def reached(self, state: Mapping[str, Any]) -> Mapping[str, int]:
        return {self.plan.name: state["done"]}

    def decide(self, changes: Rows, state: Mapping[str, Any]) -> Decision:
        found = changes.df.agg(F.max("offset").alias("last"), F.count("*").alias("records")).collect()[0]
        after, last = int(state["done"]), found["last"]
        # A commit of several files may come in several batches: an earlier one may have taken all up to this offset.
        if last is None or last <= after:
            return Decision(LocalRows.none(changes.spark), 0, state)
        due = pa.table({"after": [after], "upto": [last], "records": [found["records"]]})
        return Decision(LocalRows(changes.spark, due), found["records"], {"done": last})

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

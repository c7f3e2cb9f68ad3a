"""The agent as a resource: its input, its batch, and the folds of its effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from kaspr_delta.engine.agent.effect import SCHEMA, to_arrow
from kaspr_delta.engine.agent.event import App, ChannelDecoder, Decoder, TopicDecoder
from kaspr_delta.engine.agent.executor import AgentExecutor
from kaspr_delta.engine.agent.ordered import LikelyKeys, SparkTableReader, run_in_order
from kaspr_delta.engine.agent.output import Partitions
from kaspr_delta.engine.agent.source import channel_records, topic_records
from kaspr_delta.engine.agent.stateless import RunAgent, in_partition_order, records_of
from kaspr_delta.engine.agent.tables import TableState
from kaspr_delta.engine.dead_letters import fold_dead_letters
from kaspr_delta.engine.live_table import LiveTable
from kaspr_delta.engine.log import BatchId, Start
from kaspr_delta.engine.query import Decision, Folded, side_by_side
from kaspr_delta.engine.rows import Rows
from kaspr_delta.plan.definition import AgentPlan, ChannelInput, Plan, ResourceRef, TablePlan, TopicInput
from kaspr_delta.plan.names import channel_table, topic_table
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.delta import Delta
from kaspr_delta.storage.layout import BATCH, EFFECTS, TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_EFFECT_COLUMNS = EFFECTS.columns.removesuffix(f", {BATCH}")
# Up to this many events are handled where the batch is, without Python workers.
_FEW_EVENTS = 1_000
# A backlog of an ordered agent is taken in pieces that fit the driver.
_ORDERED_BATCH = "64m"


@dataclass(frozen=True, slots=True)
class Agent:
    """A pipeline over topics or a channel."""

    delta: Delta
    plan: AgentPlan
    application: Plan

    @property
    def ref(self) -> ResourceRef:
        return self.plan.ref

    @property
    def log_table(self) -> str:
        return self.plan.log

    @property
    def turn(self) -> str:
        """Agents that share tables take turns, so that each sees what the others wrote."""
        return str(min(self.application.group_of(self.ref)))

    @property
    def definition(self) -> Mapping[str, str]:
        """Changed code goes on from where it is: what was done is done."""
        return {}

    def begin(self, spark: SparkSession, *, log_is_new: bool) -> tuple[Decision, Mapping[str, int]]:  # noqa: ARG002
        return Decision(self._held(spark, [to_arrow([])]), 0), {}

    def source(self, spark: SparkSession, start: Start) -> DataFrame:  # noqa: ARG002  topics are read from their first
        limit = _ORDERED_BATCH if self.plan.ordered else None
        read = self.plan.input
        if isinstance(read, ChannelInput):
            feed = self.delta.stream(spark, channel_table(read.channel), read.start, limit)
            return channel_records(feed, read, self.application.default_partitions)
        # The order of the topics is part of the checkpoint.
        feeds = [
            topic_records(self.delta.stream(spark, topic_table(topic), read.start, limit), topic)
            for topic in read.topics
        ]
        return reduce(lambda one, other: one.unionByName(other), feeds)

    def decide(self, batch: DataFrame) -> Decision:
        return self._in_order(batch) if self.plan.ordered else self._in_parallel(batch)

    def _in_parallel(self, batch: DataFrame) -> Decision:
        records = Rows.of(batch, _FEW_EVENTS)
        run = RunAgent(self._executor({}))
        if records.table is None:
            effects = in_partition_order(batch).mapInArrow(run, _EFFECT_COLUMNS)
            return Decision(Rows(effects), batch.count())
        if records.empty:
            return Decision(records, 0)
        in_order = records.table.sort_by("offset")
        return Decision(self._held(batch.sparkSession, list(run(in_order.to_batches()))), in_order.num_rows)

    def _in_order(self, batch: DataFrame) -> Decision:
        spark = batch.sparkSession
        records = list(records_of(batch.toArrow().sort_by("offset")))
        decoder = self._decoder()
        likely = LikelyKeys(records, decoder)
        tables = {name: self._state(spark, name, likely) for name in self.plan.tables}
        effects = run_in_order(self._executor(tables), records, likely)
        return Decision(self._held(spark, [to_arrow(effects)]), len(records))

    @staticmethod
    def _held(spark: SparkSession, batches: list[pa.RecordBatch]) -> Rows:
        return Rows.held(spark, pa.Table.from_batches(batches, SCHEMA))

    def _state(self, spark: SparkSession, name: str, likely: LikelyKeys) -> TableState:
        plan = self._table(name)
        table = LiveTable(self.delta, plan)
        # Pinned: what others write meanwhile is seen by the next batch.
        reader = SparkTableReader(spark, table, table.newest(spark).version)
        return TableState(plan, reader, likely.of(TableText(plan.serializers)))

    def _executor(self, tables: dict[str, TableState]) -> AgentExecutor:
        app = App.of(self.application.application, self.application.application_id)
        known = {topic.name: topic.partitions for topic in self.application.topics}
        partitions = Partitions(known, self.application.default_partitions)
        identity = f"{self.delta.namespace}/{self.plan.name}"
        return AgentExecutor(identity, self.plan, app, self._decoder(), partitions, tables)

    def _decoder(self) -> Decoder:
        read = self.plan.input
        if isinstance(read, TopicInput):
            return TopicDecoder(read.serializers)
        join = self.application.join(read.join)
        if join is None:
            msg = f"{self.ref} reads channel {read.channel!r}, which no join writes"
            raise LookupError(msg)
        left, right = self._table(join.left), self._table(join.right)
        return ChannelDecoder(TableText(left.serializers), TableText(right.serializers))

    def _table(self, name: str) -> TablePlan:
        plan = self.application.table(name)
        if plan is None:
            msg = f"{self.ref} names table {name!r}, which is not there"
            raise LookupError(msg)
        return plan

    def fold(self, spark: SparkSession, batch: BatchId, rows: Rows) -> Folded:
        counts = rows.count_by("kind", "target")
        folds: list[Callable[[], None]] = []
        for kind, target in counts:
            mine = rows.df.where((F.col("kind") == kind) & (F.col("target") == target))
            if kind == "send":
                folds.append(partial(self._append_to_topic, spark, mine, target, batch))
            elif kind == "write":
                folds.append(partial(self._write_table, mine, self._table(target)))
        letters = sum(count for (kind, _), count in counts.items() if kind == "dead-letter")
        if letters:
            folds.append(partial(fold_dead_letters, self.delta, _letters(rows.df), str(self.ref), batch))
        side_by_side(folds)
        return Folded(sum(counts.values()) - letters, letters)

    def _append_to_topic(self, spark: SparkSession, rows: DataFrame, topic: str, batch: BatchId) -> None:
        if self.application.topic(topic) is None:  # a name that only a nameSelector knew
            self.delta.ensure(spark, topic_table(topic), TOPIC)
        records = rows.select("key", "value", "headers", "timestamp", "partition", "seq")
        self.delta.append(records, topic_table(topic), batch.transaction(f"topic:{topic}"))

    def _write_table(self, rows: DataFrame, table: TablePlan) -> None:
        last = rows.groupBy("key").agg(F.max_by(F.struct("value", "timestamp"), "seq").alias("last"))
        written = last.select(
            F.col("key").cast("string").alias("key"),
            F.col("last.value").cast("string").alias("value"),
            F.col("last.timestamp").alias("timestamp"),
        )
        LiveTable(self.delta, table).write(written)


def _letters(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("kind") == "dead-letter").select(
        F.col("target").alias("source"),
        _readable("key"),
        _readable("value"),
        "problem",
        "timestamp",
        "batch",
    )


def _readable(column: str) -> Column:
    """Bytes as text for people to look at; what is not UTF-8 shows replacement characters."""
    return F.make_valid_utf8(F.col(column).cast("string")).alias(column)

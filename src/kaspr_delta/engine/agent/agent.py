"""The agent as a resource: its input, its batches, and its batches that become due by the clock."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kaspr_delta.engine.agent.by_column import is_by_column
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.ordered import run_in_order
from kaspr_delta.engine.agent.pipeline import Pipeline
from kaspr_delta.engine.agent.state import AgentState, ready
from kaspr_delta.engine.agent.stateless import ONLY_VALUES, effects_of, run, sent_records
from kaspr_delta.engine.batch.checkpoint import Start, checkpoints_of
from kaspr_delta.engine.batch.counters import counter
from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.resource import Begun
from kaspr_delta.engine.batch.sources import SourceTable, source_of_records
from kaspr_delta.engine.batch.topic_commit import DirectAppend
from kaspr_delta.engine.rows.local_rows import LocalRows, fetched
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.rows.spill import rows_made
from kaspr_delta.engine.streams.arrived import arrived_records
from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.engine.streams.effect import SCHEMA, Effect, to_rows
from kaspr_delta.engine.streams.offset_range import LargeBatch, Received, in_offset_order
from kaspr_delta.engine.streams.source import Source
from kaspr_delta.engine.windows import passed_windows
from kaspr_delta.plan.definition.resources import AgentPlan, sends_of
from kaspr_delta.storage.limits import Size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Agent(Pipeline[AgentPlan]):
    """A pipeline over topics or a channel."""

    __slots__ = ()

    @property
    def table_group(self) -> str:
        """The group of agents that share tables: each sees the writes of the others."""
        return str(min(self.application.group_of(self.ref)))

    @property
    def timed(self) -> bool:
        """Whether the clock can make a batch due: ``take`` has a time limit, and windows can close by the clock."""
        windows = [self.application.table_or_result(name).window for name in self.plan.tables]
        by_the_clock = any(window is not None and window.relative_to == "now" for window in windows)
        return by_the_clock or self.plan.take is not None

    @property
    def _source(self) -> Source:
        return Source(self.delta, self.plan.input, self.application, str(self.ref))

    def sources(self, spark: SparkSession) -> Mapping[str, SourceTable]:
        return {name: source_of_records(self.application, self.plan.input, name) for name in self._source.names(spark)}

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        """An empty decision: each topic is read from the position that the previous checkpoint had processed."""
        before = AgentState.of(state)
        positions = self._source.positions(spark, before.done)
        after = replace(before, done=positions, read=positions, since=None)
        return Decision(to_rows(spark, []), 0, after.plain), positions

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        limit = self.delta.limits.ordered_batch if self.plan.ordered else None
        return self._source.stream(spark, start.positions, limit)

    def arrived(self, spark: SparkSession, after: Mapping[str, int], upto: Mapping[str, int]) -> Rows | None:
        """None also where a batch might need Spark after its first function."""
        if not self.needs_no_spark(spark):
            return None
        most = self._few_ordered if self.plan.ordered else self.delta.limits.few_events
        found = arrived_records(self._source, after, upto, most)
        return None if found is None else LocalRows(spark, found)

    @property
    def _few_ordered(self) -> Size:
        limits = self.delta.limits
        return Size(limits.ordered_records, limits.small_batch.bytes)

    def reached(self, state: Mapping[str, Any]) -> Mapping[str, int]:
        return AgentState.of(state).read

    def decide(self, changes: Rows, state: Mapping[str, Any]) -> Decision:
        return self._decide(changes, self._source, AgentState.of(state), rest=False)

    def catch_up(self, spark: SparkSession, state: Mapping[str, Any]) -> Begun | None:
        before = AgentState.of(state)
        unread = self._source.unread(spark, before.done)
        if unread is None:
            return None
        # Waiting records are read again, and none is left to wait: the change feed, which a later batch reads, is gone.
        decision = self._decide(SparkRows(unread.records), unread.source, before.at(before.done), rest=True)
        after = AgentState.of(decision.state).reached(unread.upto)
        return replace(decision, state=after.plain), unread.upto

    def _decide(self, batch: Rows, source: Source, before: AgentState, *, rest: bool) -> Decision:
        """Process the rows of a batch, which the source can read again. ``rest``: also an incomplete ``take`` group."""
        executor = self._executor(batch.spark, before)
        if self.plan.ordered:
            return self._in_order(executor, batch, source, before, rest=rest)
        return self._in_parallel(executor, batch, source, before)

    def is_due(self, state: Mapping[str, Any], *, ending: bool) -> bool:
        before = AgentState.of(state)
        return self._has_waited(before, ending=ending) or bool(_passed(self.clocks(before)))

    def due(self, spark: SparkSession, state: Mapping[str, Any], *, ending: bool) -> Decision | None:
        before = AgentState.of(state)
        if self._has_waited(before, ending=ending):
            return self._together(spark, self._executor(spark, before), self._waiting(spark, before), before, rest=True)
        clocks = self.clocks(before)
        passed = _passed(clocks)
        return Decision(to_rows(spark, passed), 0, before.with_clocks(clocks).plain) if passed else None

    def _in_parallel(self, executor: Executor, batch: Rows, source: Source, before: AgentState) -> Decision:
        arrived, direct = fetched(batch, self.delta.limits.few_events), None
        if isinstance(arrived, LocalRows):
            received = Received()
            (in_order,) = received.counted([arrived.table.sort_by("offset")])
            made = run(executor, in_order.to_batches())
            effects: Rows = LocalRows(batch.spark, pa.Table.from_batches(made, SCHEMA))
        else:
            large = LargeBatch.of(batch.df, source)
            records, received = large.all(), Received.of(large.ranges)
            effects = SparkRows(effects_of(executor, records))
            if self._only_topic is not None:
                direct = DirectAppend(self._only_topic, sent_records(executor, records, large.ranges))
        return _decision(executor, effects, received, before.at(received.positions), direct)

    @property
    def _only_topic(self) -> str | None:
        """The topic of all sends; None if there are several, if a function selects one, or if it is a changelog."""
        topics = {None if send.name_selector else send.topic for send in sends_of(self.plan)}
        topic = topics.pop() if len(topics) == 1 else None
        return None if topic is None or self.application.changelog(topic) is not None else topic

    def _in_order(self, executor: Executor, batch: Rows, source: Source, before: AgentState, *, rest: bool) -> Decision:
        spark = batch.spark
        needed = batch.select(*ONLY_VALUES, "offset") if is_by_column(executor) else batch
        pieces = in_offset_order(needed, source, self.delta.limits)
        if self.plan.take is None and not before.waiting:
            effects, received = self._run(spark, executor, pieces)
            return _decision(executor, effects, received, before.at(received.positions))
        received = Received()
        records = pa.concat_tables(received.counted(pieces))
        if before.waiting:
            records = pa.concat_tables([self._waiting(spark, before), records], promote_options="default")
        reached = before.reached(received.positions)
        return self._together(spark, executor, records, reached, rest=rest or self._has_waited(before, ending=False))

    def _waiting(self, spark: SparkSession, state: AgentState) -> pa.Table:
        behind = {name: at for name, at in state.done.items() if name in state.read}
        found = arrived_records(self._source, behind, state.read, self._few_ordered)
        if found is not None:
            return found
        records = self._source.between(spark, state.done, state.read)
        return pa.concat_tables(in_offset_order(SparkRows(records), self._source, self.delta.limits))

    def _together(
        self, spark: SparkSession, executor: Executor, records: pa.Table, reached: AgentState, *, rest: bool
    ) -> Decision:
        """Process the records; those that have to wait for more are left to a later batch."""
        processed = records.slice(0, ready(records.num_rows, self.plan.take, rest=rest))
        effects, received = self._run(spark, executor, [processed])
        waits = processed.num_rows < records.num_rows
        after = reached.processed(received.positions) if waits else reached.at(reached.read)
        return _decision(executor, effects, received, after)

    def _run(self, spark: SparkSession, executor: Executor, pieces: Iterable[pa.Table]) -> tuple[Rows, Received]:
        received = Received()
        made = run_in_order(executor, received.counted(pieces), self.delta.limits)
        beside_checkpoints = checkpoints_of(self.delta.namespace, self.ref) / "effects"
        return rows_made(spark, made, SCHEMA, beside_checkpoints, self.delta.limits), received

    def _executor(self, spark: SparkSession, before: AgentState) -> Executor:
        return self.executor(spark, self._source.decoder(), before)

    def _has_waited(self, state: AgentState, *, ending: bool) -> bool:
        """Whether records wait, and for long enough."""
        if state.since is None:
            return False
        if ending or self.plan.take is None:
            return ending
        # If the clock was set back, the difference is negative: do not wait for longer than ``within``.
        return not 0 <= time.time() - state.since < self.plan.take.within / 1_000


def _passed(clocks: Mapping[str, Clock]) -> list[Effect]:
    """The windows that the clock has passed, of each table."""
    return [effect for name, clock in clocks.items() for effect in passed_windows(name, clock)]


def _decision(
    executor: Executor, effects: Rows, received: Received, after: AgentState, direct: DirectAppend | None = None
) -> Decision:
    """The decision of a batch. ``after`` is the agent's state after it, without the stream times."""
    by_topic = {counter("messages_received_per_topic", topic): rows for topic, rows in received.rows.items()}
    state = after.with_clocks(executor.clocks).plain
    return Decision(effects, sum(received.rows.values()), state, {**executor.counts, **by_topic}, direct)

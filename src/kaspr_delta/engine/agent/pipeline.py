"""The bases of agents, tasks and ingests: a log of effects, and a pipeline that makes them. And the task."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import Any, TypeVar

import narwhals as nw
from pyspark.sql import SparkSession

from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.ordered import PinnedReader
from kaspr_delta.engine.agent.state import AgentState
from kaspr_delta.engine.agent.table_state import TableState
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.counters import counter
from kaspr_delta.engine.batch.decision import Decision, Folded
from kaspr_delta.engine.batch.resource import Begun, Fold, Found, LoggedPlan, Resource
from kaspr_delta.engine.batch.topic_commit import append_to_topic, make_topic
from kaspr_delta.engine.rows.keyed_table import state_table
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.engine.streams.effect import RECORD, to_rows
from kaspr_delta.engine.streams.event import App, Decoder
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.engine.windows import pass_windows
from kaspr_delta.plan.definition.resources import AgentPlan, TaskPlan, names_topics
from kaspr_delta.serde.instants import microseconds
from kaspr_delta.storage.opening import tables_of_system
from kaspr_delta.storage.system_tables import known_topics

_log = logging.getLogger(__name__)
LoggedPlanT = TypeVar("LoggedPlanT", bound=LoggedPlan)
PlanT = TypeVar("PlanT", AgentPlan, TaskPlan)


class EffectResource(Resource[LoggedPlanT]):
    """A resource whose log holds effects. Their fold appends to topics, writes tables and keeps dead letters."""

    __slots__ = ()

    counted = ("kind", "target")

    def numbers(self, counts: Mapping[tuple[Any, ...], int]) -> Folded:
        done = sum(count for (kind, _), count in counts.items() if kind in {"send", "write"})
        letters = sum(count for (kind, _), count in counts.items() if kind == "dead-letter")
        sent = {counter("topic_messages_sent", to): count for (kind, to), count in counts.items() if kind == "send"}
        return Folded(done, letters, counts=sent)

    def folds(self, rows: Rows, found: Found, batches: Sequence[BatchId]) -> Sequence[Fold]:
        folds: list[Fold] = []
        for kind, target in found:
            mine = rows.filter((nw.col("kind") == kind) & (nw.col("target") == target))
            if kind == "send":
                folds.append(partial(self._append_to_topic, mine, target, batches[-1]))
            elif kind == "write":
                folds.append(partial(self._write_table, mine, target))
        return folds

    def afterwards(self, rows: Rows, found: Found) -> None:
        pass_windows(self.delta, rows, found, lambda row: self.application.known_table(row["target"]))

    def letters(self, rows: Rows) -> Rows:
        letters = rows.filter(nw.col("kind") == "dead-letter").with_columns(source=nw.col("target"))
        return letters.select("source", "key", "value", "problem", "timestamp", "batch")

    def _append_to_topic(self, rows: Rows, topic: str, batch: BatchId) -> None:
        if self.application.topic(topic) is None:  # the name came from a nameSelector
            make_topic(self.delta, rows.spark, topic)
        append_to_topic(self.delta, rows.select(*RECORD), topic, batch)

    def _write_table(self, rows: Rows, name: str) -> None:
        table = state_table(self.delta, self.application.known_table(name))
        also = ("timestamp", "stream") if table.plan.window else ("timestamp",)
        row_key = table.plan.row_key_columns
        last = rows.select(*row_key, "seq", "value", *also).newest(row_key, ("seq",))
        texts = {name: nw.col(name).cast(nw.String) for name in ("key", "value")}
        table.write(last.with_columns(**texts))


class Pipeline(EffectResource[PlanT]):
    """A pipeline. Changed code continues at the current position; earlier effects stay."""

    __slots__ = ()

    def executor(
        self, spark: SparkSession, decoder: Decoder, state: AgentState, *, read_only: bool = False
    ) -> Executor:
        """The executor that runs the pipeline, on pinned versions of its tables: the next batch sees later writes."""
        made = known_topics(tables_of_system(spark, self.delta)) if names_topics(self.plan) else ()
        return Executor(
            f"{self.delta.namespace}/{self.ref}",
            self.plan,
            App.of(self.application.application, self.application.application_id),
            decoder,
            Topics.of(self.application, made),
            self._opened(spark, state),
            read_only=read_only,
            timeout=self.event_timeout,
        )

    def needs_no_spark(self, spark: SparkSession) -> bool:
        """Whether the pipeline's tables are read and written without Spark."""
        tables = [state_table(self.delta, self.application.table_or_result(name)) for name in self.plan.tables]
        return all(one.has_text and self.delta.scan(spark, one.plan.delta_name).reads_files for one in tables)

    def clocks(self, state: AgentState) -> dict[str, Clock]:
        """The stream times of the pipeline's tables with windows, as the previous batch left them."""
        tables = map(self.application.table_or_result, self.plan.tables)
        return {
            table.name: Clock(table.window, self.plan.name, state.clocks.get(table.name, {}))
            for table in tables
            if table.window is not None
        }

    def _opened(self, spark: SparkSession, state: AgentState) -> dict[str, TableState]:
        opened, clocks = {}, self.clocks(state)
        for name in self.plan.tables:
            plan = self.application.table_or_result(name)
            table = state_table(self.delta, plan)
            reader = PinnedReader(spark, table, table.newest(spark).version)
            opened[name] = TableState(plan, reader, clocks.get(name))
        return opened


class Task(Pipeline[TaskPlan]):
    """A pipeline without an input. Each tick is a run."""

    __slots__ = ()

    @property
    def timed(self) -> bool:
        return True

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        return Decision(to_rows(spark, []), 0), {}

    def due(self, spark: SparkSession, state: Mapping[str, Any], *, ending: bool) -> Decision:
        """Run the pipeline once. A function that fails becomes a dead letter, and does not stop later runs."""
        now = datetime.now(timezone.utc)
        executor = self.executor(spark, _no_record, AgentState(), read_only=True)
        effects = executor.fire(str(self.ref), microseconds(now))
        for effect in effects:
            if effect.problem is not None:  # a dead letter
                _log.error("%s failed:\n%s", self.ref, effect.problem["detail"])
        # The new state makes the runner commit a run that sends nothing, too.
        return Decision(to_rows(spark, effects), 1, {"at": now.isoformat()}, executor.counts)


def _no_record(record: object) -> Any:
    msg = f"a task has no input, and was given {record!r}"
    raise TypeError(msg)

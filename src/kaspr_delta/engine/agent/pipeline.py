"""The common base of agents and tasks as resources: a pipeline, and its executor on the tables of the application."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import functions as F

from kaspr_delta.engine.agent.effect_resource import EffectResource
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.state import AgentState
from kaspr_delta.engine.agent.table_state import AnyState, Cell, TableState
from kaspr_delta.engine.batch.topics import known_topics
from kaspr_delta.engine.rows.keyed_table import KeyedTable, state_table
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.engine.streams.event import App, Decoder, moment_of
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.plan.definition.resources import AgentPlan, TaskPlan, names_topics
from kaspr_delta.storage.spark.frames import collected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PlanT = TypeVar("PlanT", AgentPlan, TaskPlan)


class Pipeline(EffectResource[PlanT]):
    """A resource whose log holds effects. Changed code continues at the current position; earlier effects stay."""

    __slots__ = ()

    def executor(
        self, spark: SparkSession, decoder: Decoder, state: AgentState, *, read_only: bool = False
    ) -> Executor:
        """The executor that runs the pipeline, on pinned versions of its tables: the next batch sees later writes."""
        made = known_topics(self.delta, spark) if names_topics(self.plan) else ()
        return Executor(
            f"{self.delta.namespace}/{self.ref}",
            self.plan,
            App.of(self.application.application, self.application.application_id),
            decoder,
            Topics.of(self.application, made),
            {name: self._opened(spark, name) for name in self.plan.tables},
            self.clocks(state),
            read_only=read_only,
            timeout=self.event_timeout,
        )

    def clocks(self, state: AgentState) -> dict[str, Clock]:
        """The stream times of the pipeline's tables with windows, as the previous batch left them."""
        tables = map(self.application.known_table, self.plan.tables)
        return {
            table.name: Clock(table.window, self.plan.name, state.clocks.get(table.name, {}))
            for table in tables
            if table.window is not None
        }

    def _opened(self, spark: SparkSession, name: str) -> AnyState:
        plan = self.application.known_table(name)
        table = state_table(self.delta, plan)
        version = table.newest(spark).version
        if plan.window is None:
            return TableState(plan, SparkTableReader(spark, table, version))
        return TableState(plan, SparkWindowReader(spark, table, version))


@dataclass(frozen=True, slots=True)
class SparkTableReader:
    """Reads a table at the version it had when the batch began; one Spark job per call at most."""

    spark: SparkSession
    table: KeyedTable
    version: int

    def fetch(self, row_keys: Collection[str]) -> dict[str, str]:
        return self._rows(self.table.live_rows(self.spark, self.version, list(row_keys)))

    def scan(self, start: int | None) -> dict[str, str]:
        return self._rows(self.table.live_rows(self.spark, self.version))

    def _rows(self, rows: Rows) -> dict[str, str]:
        found = self.table.with_text_values(rows.select("key", "value")).collect()
        return dict(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))


@dataclass(frozen=True, slots=True)
class SparkWindowReader:
    """Reads a table with windows at the version it had when the batch began; one Spark job per call."""

    spark: SparkSession
    table: KeyedTable
    version: int

    def fetch(self, row_keys: Collection[Cell]) -> dict[Cell, str]:
        cells = [(cell.key, moment_of(cell.start * 1_000)) for cell in row_keys]
        wanted = self.spark.createDataFrame(cells, "key STRING, window_start TIMESTAMP")
        return self._rows(self.table.live_rows(self.spark, self.version, SparkRows(wanted)))

    def scan(self, start: int | None) -> dict[Cell, str]:
        rows = self.table.live_rows(self.spark, self.version)
        return self._rows(rows.made(rows.df.where(F.col("window_start") == moment_of((start or 0) * 1_000))))

    def _rows(self, rows: Rows) -> dict[Cell, str]:
        texts = self.table.with_text_values(rows).df
        found = collected(texts.select("key", F.unix_millis("window_start").alias("start"), "value"))
        cells = map(Cell, found["key"].to_pylist(), found["start"].to_pylist())
        return dict(zip(cells, found["value"].to_pylist(), strict=True))

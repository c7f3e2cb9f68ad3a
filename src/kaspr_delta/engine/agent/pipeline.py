"""The common base of agents and tasks as resources: a pipeline, its executor, and the fold of its effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.fold import EffectFold
from kaspr_delta.engine.agent.table_state import AnyState
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.planned_resource import PlannedResource
from kaspr_delta.engine.batch.resource import Folded
from kaspr_delta.engine.batch.topics import known_topics
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.engine.streams.event import App, Decoder
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.plan.definition.resources import AgentPlan, TaskPlan, names_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PlanT = TypeVar("PlanT", AgentPlan, TaskPlan)


class Pipeline(PlannedResource[PlanT]):
    """A resource whose log holds effects. Changed code continues at the current position; earlier effects stay."""

    __slots__ = ()

    @property
    def definition(self) -> Mapping[str, str]:
        return {}

    def fold(self, spark: SparkSession, batch: BatchId, rows: Rows) -> Folded:
        return EffectFold(self.delta, self.application, self.ref).fold(spark, batch, rows)

    def executor(
        self,
        spark: SparkSession,
        decoder: Decoder,
        tables: Mapping[str, AnyState],
        clocks: Mapping[str, Clock],
        *,
        read_only: bool = False,
    ) -> Executor:
        """The executor that runs the pipeline on tables that were opened for it."""
        made = known_topics(self.delta, spark) if names_topics(self.plan) else ()
        return Executor(
            f"{self.delta.namespace}/{self.ref}",
            self.plan,
            App.of(self.application.application, self.application.application_id),
            decoder,
            Topics.of(self.application, made),
            tables,
            clocks,
            read_only=read_only,
            timeout=self.event_timeout,
        )

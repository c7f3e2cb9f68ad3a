"""The common base of agents and tasks as resources: a pipeline, its executor, and the fold of its effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from kaspr_delta.engine.agent.effect_resource import EffectResource
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.table_state import AnyState
from kaspr_delta.engine.batch.topics import known_topics
from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.engine.streams.event import App, Decoder
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.plan.definition.resources import AgentPlan, TaskPlan, names_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PlanT = TypeVar("PlanT", AgentPlan, TaskPlan)


class Pipeline(EffectResource[PlanT]):
    """A resource whose log holds effects. Changed code continues at the current position; earlier effects stay."""

    __slots__ = ()

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

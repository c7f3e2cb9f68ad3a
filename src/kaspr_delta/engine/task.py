"""The task as a resource: a pipeline that the clock starts. It reads tables and sends to topics."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from kaspr_delta.engine.agent.effect import to_rows
from kaspr_delta.engine.agent.event import App
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.fold import EffectFold
from kaspr_delta.engine.agent.ordered import opened
from kaspr_delta.engine.agent.output import Topics
from kaspr_delta.engine.agent.state import AgentState
from kaspr_delta.engine.log import BatchId
from kaspr_delta.engine.resource import Decision, Folded
from kaspr_delta.engine.rows import Rows
from kaspr_delta.engine.topics import known_topics
from kaspr_delta.plan.definition import Plan, ResourceRef, TaskPlan
from kaspr_delta.storage.delta import Delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Task:
    """A pipeline without an input. Each tick is a run."""

    delta: Delta
    plan: TaskPlan
    application: Plan

    @property
    def ref(self) -> ResourceRef:
        return self.plan.ref

    @property
    def log_table(self) -> str:
        return self.plan.log

    @property
    def turn(self) -> str:
        return str(self.ref)

    @property
    def timed(self) -> bool:
        return True

    @property
    def definition(self) -> Mapping[str, str]:
        return {}

    def sources(self, spark: SparkSession) -> Collection[str]:
        return ()

    def begin(
        self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool
    ) -> tuple[Decision, Mapping[str, int]]:
        return Decision(to_rows(spark, []), 0), {}

    def due(self, spark: SparkSession, state: Mapping[str, Any], *, ending: bool) -> Decision:
        """One run. A function that fails is a dead letter; the next run comes all the same."""
        now = datetime.now(timezone.utc)
        executor = self._executor(spark)
        effects = executor.fire(str(self.ref), now)
        for effect in effects:
            if effect.kind == "dead-letter" and effect.problem is not None:
                _log.error("%s failed:\n%s", self.ref, effect.problem["detail"])
        # A run leaves a trace also when it sends nothing.
        return Decision(to_rows(spark, effects), 1, {"at": now.isoformat()}, executor.counts)

    def fold(self, spark: SparkSession, batch: BatchId, rows: Rows) -> Folded:
        return EffectFold(self.delta, self.application, self.ref).fold(spark, batch, rows)

    def _executor(self, spark: SparkSession) -> Executor:
        made = known_topics(self.delta, spark) if self.plan.names_topics else ()
        tables, clocks = opened(spark, self.delta, self.application, self.plan, AgentState())
        return Executor(
            f"{self.delta.namespace}/{self.ref}",
            self.plan,
            App.of(self.application.application, self.application.application_id),
            _no_record,
            Topics.of(self.application, made),
            tables,
            clocks,
            read_only=True,
            timeout=self.application.event_timeout / 1_000,
        )


def _no_record(record: object) -> Any:
    msg = f"a task has no input, and was given {record!r}"
    raise TypeError(msg)

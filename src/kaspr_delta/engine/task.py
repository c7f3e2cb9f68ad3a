"""The task as a resource: the clock starts its pipeline, which reads tables and sends to topics."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from kaspr_delta.engine.agent.pipeline import Pipeline
from kaspr_delta.engine.agent.state import AgentState
from kaspr_delta.engine.batch.resource import Decision, SourceTable
from kaspr_delta.engine.streams.effect import to_rows
from kaspr_delta.engine.streams.event import microseconds
from kaspr_delta.plan.definition.resources import TaskPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


class Task(Pipeline[TaskPlan]):
    """A pipeline without an input. Each tick is a run."""

    __slots__ = ()

    @property
    def timed(self) -> bool:
        return True

    def sources(self, spark: SparkSession) -> Mapping[str, SourceTable]:
        return {}

    def begin(
        self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool
    ) -> tuple[Decision, Mapping[str, int]]:
        return Decision(to_rows(spark, []), 0), {}

    def due(self, spark: SparkSession, state: Mapping[str, Any], *, ending: bool) -> Decision:
        """Run the pipeline once. A function that fails becomes a dead letter, and does not stop later runs."""
        now = datetime.now(timezone.utc)
        executor = self.executor(spark, _no_record, AgentState(), read_only=True)
        effects = executor.fire(str(self.ref), microseconds(now))
        for effect in effects:
            if effect.kind == "dead-letter" and effect.problem is not None:
                _log.error("%s failed:\n%s", self.ref, effect.problem["detail"])
        # The new state makes the query commit a run that sends nothing, too.
        return Decision(to_rows(spark, effects), 1, {"at": now.isoformat()}, executor.counts)


def _no_record(record: object) -> Any:
    msg = f"a task has no input, and was given {record!r}"
    raise TypeError(msg)

"""Run an application until quiet without Spark, as far as that goes: small batches, one resource after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kaspr_delta.engine.agent.pipeline import Task
from kaspr_delta.errors import SparkNeededError
from kaspr_delta.runtime.run_events import Started
from kaspr_delta.runtime.runner import Runner

if TYPE_CHECKING:
    from kaspr_delta.plan.definition.resources import ResourceRef


class DriverRunner(Runner):
    """Raises SparkNeededError where it cannot go on. Another runner, with a session, then goes on from there.

    Its ``spark`` is one of ``without_spark``. A start of Spark takes seconds, more than all small batches of a run.
    """

    def _round_of(self, refs: Sequence[ResourceRef]) -> int:
        rows = 0
        for ref in refs:
            self.listener(Started(ref))
            rows += self._attempted(ref, self._processed_here)
        return rows

    def _fire(self, task: ResourceRef) -> int:
        resource = self._runs[task].resource
        if not (isinstance(resource, Task) and resource.needs_no_spark(self.spark)):
            raise SparkNeededError(f"only Spark reads or writes a table of {task}")
        return super()._fire(task)

    def _processed_here(self, ref: ResourceRef) -> int:
        run = self._runs[ref]
        run.recovery.follow_sources(self.spark)
        rows = run.process_here(self.spark)
        if run.resource.timed and not self._stop.is_set():  # no later rows will come in this run
            rows += run.runner.tick(self.spark, ending=True)
        return rows

"""Running an application: stage by stage until quiet, or continuously until stopped."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kaspr_delta.engine.query import Query, side_by_side
from kaspr_delta.errors import NotQuietError, ResourceFailedError
from kaspr_delta.plan.definition import Plan, ResourceRef, Stage
from kaspr_delta.runtime.resources import query_of
from kaspr_delta.storage.delta import Delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

# Rounds of a loop of resources that feed one another, before it is called endless.
_MOST_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Progressed:
    """A resource finished a round."""

    resource: ResourceRef
    batches: int
    rows_in: int


Listener = Callable[[Progressed], None]


@dataclass
class Runner:
    """Runs the resources of a plan on one warehouse."""

    spark: SparkSession
    delta: Delta
    plan: Plan
    listener: Listener = lambda progressed: None  # noqa: ARG005, E731
    _queries: dict[ResourceRef, Query] = field(default_factory=dict, init=False)

    def until_quiet(self, only: Iterable[ResourceRef] = ()) -> None:
        """Process what is there, in dependency order, until no resource has anything to do.

        Raises ResourceFailedError when one failed (what depends on it was still run on what it has), AlreadyRunningError
        and NotQuietError.
        """
        failures: dict[ResourceRef, Exception] = {}
        with self._running(stages := self._stages(only)):
            for stage in stages:
                self._until_stage_quiet(stage, failures)
        if failures:
            raise _failed(failures)

    def continuously(self, stop: threading.Event, every: str, only: Iterable[ResourceRef] = ()) -> None:
        """Keep all resources running until ``stop`` is set; batches under way are finished.

        Raises ResourceFailedError as soon as one fails, after the others were stopped.
        """
        with self._running(stages := self._stages(only)):
            running = {ref: self._queries[ref].start(self.spark, every) for stage in stages for ref in stage.resources}
            try:
                while not stop.wait(0.2) and all(query.isActive for query in running.values()):
                    pass
            finally:
                for query in running.values():
                    _stop_after_batch(query)
            failures = {
                ref: self._queries[ref].failure or error
                for ref, query in running.items()
                if (error := query.exception()) is not None
            }
        if failures:
            raise _failed(failures)

    def _until_stage_quiet(self, stage: Stage, failures: dict[ResourceRef, Exception]) -> None:
        for _ in range(_MOST_ROUNDS):
            rows = self._round(stage, failures)
            if rows == 0 or not stage.loop:
                return
        loop = " -> ".join(str(ref) for ref in (*stage.resources, stage.resources[0]))
        msg = f"{loop} feed one another and were not quiet after {_MOST_ROUNDS} rounds: let a filter end the loop"
        raise NotQuietError(msg)

    def _round(self, stage: Stage, failures: dict[ResourceRef, Exception]) -> int:
        """Run every resource of the stage once on what is there now, side by side; the number of rows read."""
        started = {r: self._queries[r].start(self.spark, None) for r in stage.resources if r not in failures}
        rows = 0
        for ref, query in started.items():
            try:
                query.awaitTermination()
            except Exception as error:  # noqa: BLE001 - whatever it was, the others go on and it is raised at the end
                failures[ref] = self._queries[ref].failure or error
                continue
            read = sum(progress["numInputRows"] for progress in query.recentProgress)
            rows += read
            self.listener(Progressed(ref, len(query.recentProgress), read))
        return rows

    def _stages(self, only: Iterable[ResourceRef]) -> list[Stage]:
        wanted = set(only)
        waiting = {ref for ref, _ in self.plan.waiting}
        stages = []
        for stage in self.plan.stages:
            chosen = tuple(r for r in stage.resources if r not in waiting and (not wanted or r in wanted))
            if chosen:
                stages.append(Stage(chosen, stage.loop))
        return stages

    @contextlib.contextmanager
    def _running(self, stages: Iterable[Stage]):  # type: ignore[no-untyped-def]  # noqa: ANN202
        """Hold the locks of the resources, and finish what a killed run left, also of those who share their tables."""
        refs = [ref for stage in stages for ref in stage.resources]
        with contextlib.ExitStack() as held:
            for ref in refs:
                held.enter_context(self.delta.namespace.running(str(ref)))
            self._queries = {ref: query_of(self.delta, self.plan, ref) for ref in refs}
            companions = [query_of(self.delta, self.plan, ref) for ref in self._companions(refs)]
            every = [*self._queries.values(), *companions]
            side_by_side([partial(query.recover, self.spark) for query in every])
            yield

    def _companions(self, refs: list[ResourceRef]) -> set[ResourceRef]:
        groups = [group for group in self.plan.groups if set(group) & set(refs)]
        waiting = {ref for ref, _ in self.plan.waiting}
        return {ref for group in groups for ref in group} - set(refs) - waiting


def _stop_after_batch(query: StreamingQuery) -> None:
    """Stop a query between two batches: an interrupted batch is replayed anyway, but would leave noise in the log."""
    pause = threading.Event()
    while query.isActive and query.status["isTriggerActive"]:
        pause.wait(0.05)
    query.stop()


def _failed(failures: dict[ResourceRef, Exception]) -> ResourceFailedError:
    lines = [f"{ref} failed: {_short(error)}" for ref, error in failures.items()]
    return ResourceFailedError("\n".join(lines))


def _short(error: Exception) -> str:
    """Of a Spark error only what it says, without the JVM's stack and without the plan."""
    text = str(error)
    for noise in ("\n\tat ", "JVM stacktrace:", "\n=== Streaming Query ===", ";\n'"):
        text = text.split(noise, 1)[0]
    return f"{type(error).__name__}: {text.strip()}"

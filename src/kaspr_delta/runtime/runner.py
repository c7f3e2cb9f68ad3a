"""Running an application: stage by stage until quiet, or continuously until stopped."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from kaspr_delta.engine.progress import folded_batches, forget_old
from kaspr_delta.engine.query import Query, side_by_side
from kaspr_delta.engine.retention import keeps_for_ever, remove_old
from kaspr_delta.engine.source_errors import columns_were_added
from kaspr_delta.errors import NotQuietError, ResourceFailedError
from kaspr_delta.plan.definition import Plan, ResourceRef, Stage, TaskPlan
from kaspr_delta.runtime.resources import query_of
from kaspr_delta.runtime.scheduler import tasks_firing
from kaspr_delta.storage.delta import Delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# Rounds of a loop of resources that feed one another, before it is called endless.
_MOST_ROUNDS = 100
# Seconds between two looks at queries that run.
_POLL = 0.1
# Seconds between two looks at what the clock makes due, and at what is to be kept no longer.
_TICK = 1.0
_CLEANING = 60.0


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
    listener: Listener = lambda progressed: None  # noqa: ARG005
    _queries: dict[ResourceRef, Query] = field(default_factory=dict, init=False)
    _lost: list[threading.Event] = field(default_factory=list, init=False)
    _restarted: set[ResourceRef] = field(default_factory=set, init=False)

    def until_quiet(self, only: Collection[ResourceRef] = ()) -> None:
        """Process what is there, in dependency order, until no resource has anything to do.

        A task runs once if it is named in ``only``, otherwise not. Raises ResourceFailedError when one failed (what
        depends on it was still run on what it has), AlreadyRunningError and NotQuietError.
        """
        failures: dict[ResourceRef, Exception] = {}
        stages, tasks = self._stages(only), [task.ref for task in self.plan.tasks if task.ref in only]
        with self._running([*_refs(stages), *tasks], failures):
            for ref in tasks:
                self._fire(ref, failures)
            for _ in range(_MOST_ROUNDS):
                rows = sum(self._until_stage_quiet(stage, failures) for stage in stages)
                # A topic that a nameSelector names may be read by any stage, also by an earlier one.
                if rows == 0 or not self._sends_anywhere(stages):
                    break
            else:
                raise _endless(_refs(stages))
        if failures:
            raise _failed(failures)

    def continuously(self, stop: threading.Event, every: str, only: Collection[ResourceRef] = ()) -> None:
        """Keep all resources running until ``stop`` is set, tasks by their schedules; batches under way are finished.

        Raises ResourceFailedError as soon as one fails, after the others were stopped.
        """
        failures: dict[ResourceRef, Exception] = {}
        refs, tasks = _refs(self._stages(only)), self._tasks(only)
        with self._running([*refs, *(task.ref for task in tasks)], failures):
            refs = [ref for ref in refs if ref not in failures]
            schedules = [(self._queries[task.ref], task.schedule) for task in tasks if task.ref not in failures]
            told = partial(_set_default, failures)
            with self._started(refs, every, failures) as running, tasks_firing(self.spark, schedules, told):
                ticked = cleaned = time.monotonic()
                while not (failures or stop.wait(_POLL)):
                    for ref, query in running.items():
                        if not query.isActive:
                            self._restart(running, ref, every)
                    lost = any(lost.is_set() for lost in self._lost)  # leaving the locks says which one
                    if lost or not all(query.isActive for query in running.values()):
                        break
                    if time.monotonic() - ticked >= _TICK:
                        for ref in refs:
                            self._by_the_clock(running, ref, every, failures)
                        ticked = time.monotonic()
                    if time.monotonic() - cleaned >= _CLEANING:
                        remove_old(self.delta, self.spark, self.plan)
                        cleaned = time.monotonic()
            for ref, query in running.items():
                self._note_failure(ref, query.exception(), failures)
        if failures:
            raise _failed(failures)

    def _fire(self, ref: ResourceRef, failures: dict[ResourceRef, Exception]) -> None:
        if ref not in failures:
            try:
                self.listener(Progressed(ref, 1, self._queries[ref].tick(self.spark, ending=True)))
            except Exception as error:  # noqa: BLE001  the others go on, and all failures are raised at the end
                self._note_failure(ref, error, failures)

    def _tasks(self, only: Collection[ResourceRef]) -> list[TaskPlan]:
        return [task for task in self.plan.tasks if not only or task.ref in only]

    def rebuild(self, ref: ResourceRef) -> None:
        """Make a resource's state anew. Raises AlreadyRunningError and NotFoundError."""
        with self.delta.namespace.running(str(ref)):
            query_of(self.delta, self.plan, ref).rebuild(self.spark)

    def _until_stage_quiet(self, stage: Stage, failures: dict[ResourceRef, Exception]) -> int:
        total = 0
        for _ in range(_MOST_ROUNDS):
            rows = self._round(stage, failures)
            total += rows
            if rows == 0 or not stage.loop:
                return total
        raise _endless(stage.resources)

    def _round(self, stage: Stage, failures: dict[ResourceRef, Exception]) -> int:
        """Run every resource of the stage once on what is there now, side by side; the number of rows read."""
        rows = 0
        refs = [ref for ref in stage.resources if ref not in failures]
        with self._started(refs, None, failures) as running:
            for ref in refs:
                try:
                    done = self._waited_for(running, ref) if ref in running else []
                    read = sum(progress["numInputRows"] for progress in done) + self._rest(ref)
                except Exception as error:  # noqa: BLE001 - the others go on, and all failures are raised at the end
                    self._note_failure(ref, error, failures)
                    continue
                rows += read
                self.listener(Progressed(ref, len(done), read))
        return rows

    def _by_the_clock(
        self,
        running: dict[ResourceRef, StreamingQuery],
        ref: ResourceRef,
        every: str,
        failures: dict[ResourceRef, Exception],
    ) -> None:
        """What no arriving record starts: new topics that a pattern matches, and what has become due."""
        query = self._queries[ref]
        try:
            if query.resource.timed:
                query.tick(self.spark, ending=False)
            if query.sources_changed(self.spark):
                if ref in running:
                    _stop_after_batch(running[ref])
                query.follow_sources(self.spark)
                running[ref] = query.start(self.spark, every)
        except Exception as error:  # noqa: BLE001  told with all the others, once they were stopped
            self._note_failure(ref, error, failures)

    def _rest(self, ref: ResourceRef) -> int:
        """Take up what waits for more to come, for in this run nothing will; the number of rows."""
        query = self._queries[ref]
        return query.tick(self.spark, ending=True) if query.resource.timed else 0

    def _waited_for(self, running: dict[ResourceRef, StreamingQuery], ref: ResourceRef) -> list[Mapping[str, Any]]:
        """Wait until a resource has processed what is there; the progress of its batches."""
        try:
            running[ref].awaitTermination()
        except Exception:
            if not self._restart(running, ref, None):
                raise
            return self._waited_for(running, ref)
        self._queries[ref].ended()
        return list(running[ref].recentProgress)

    def _restart(self, running: dict[ResourceRef, StreamingQuery], ref: ResourceRef, every: str | None) -> bool:
        """Go on with a query that stopped because a table got columns: once, unless it has got on since."""
        query = running[ref]
        error = query.exception()
        in_vain = ref in self._restarted and query.lastProgress is None
        if error is None or in_vain or not columns_were_added(error):
            return False
        self._restarted.add(ref)
        running[ref] = self._queries[ref].start(self.spark, every)
        return True

    @contextlib.contextmanager
    def _started(
        self, refs: Iterable[ResourceRef], every: str | None, failures: dict[ResourceRef, Exception]
    ) -> Iterator[dict[ResourceRef, StreamingQuery]]:
        """The queries of these resources, running; none is left running, however it ends."""
        running: dict[ResourceRef, StreamingQuery] = {}
        try:
            for ref in refs:
                query = self._queries[ref]
                try:
                    query.follow_sources(self.spark)
                    idle = every is None and query.is_up_to_date(self.spark)
                    if not (query.reads_nothing or idle):
                        running[ref] = query.start(self.spark, every)
                except Exception as error:  # noqa: BLE001 - one that does not start must not keep the others from it
                    self._note_failure(ref, error, failures)
            yield running
        finally:
            for started in running.values():
                _stop_after_batch(started)

    def _note_failure(self, ref: ResourceRef, error: Exception | None, failures: dict[ResourceRef, Exception]) -> None:
        if error is not None:
            failures[ref] = self._queries[ref].account_of(error)

    def _sends_anywhere(self, stages: Iterable[Stage]) -> bool:
        agents = [self.plan.agent(ref.name) for stage in stages for ref in stage.resources if ref.kind == "agent"]
        return any(agent is not None and agent.names_topics for agent in agents)

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
    def _running(self, refs: Sequence[ResourceRef], failures: dict[ResourceRef, Exception]) -> Iterator[None]:
        """Hold the locks of the resources, and finish what a killed run left, also of those who share their tables."""
        with contextlib.ExitStack() as held:
            self._lost = [held.enter_context(self.delta.namespace.running(str(ref))) for ref in refs]
            self._queries = {ref: query_of(self.delta, self.plan, ref) for ref in refs}
            for ref, query in self._queries.items():
                query.companions = tuple(query_of(self.delta, self.plan, other) for other in self._companions(ref))
            folded = folded_batches(self.delta, self.spark)
            recoveries = [partial(self._recover, ref, folded, failures) for ref in refs]
            cleaning = [partial(forget_old, self.delta, self.spark)]
            if not keeps_for_ever(self.plan):
                cleaning.append(partial(remove_old, self.delta, self.spark, self.plan))
            side_by_side([*recoveries, *cleaning])
            yield

    def _recover(
        self, ref: ResourceRef, folded: dict[str, dict[str, int]], failures: dict[ResourceRef, Exception]
    ) -> None:
        try:
            self._queries[ref].recover(self.spark, folded)
        except Exception as error:  # noqa: BLE001 - the others go on, and all failures are raised at the end
            failures[ref] = error

    def _companions(self, ref: ResourceRef) -> list[ResourceRef]:
        waiting = {other for other, _ in self.plan.waiting}
        return [other for other in self.plan.group_of(ref) if other != ref and other not in waiting]


def _stop_after_batch(query: StreamingQuery) -> None:
    """Stop a query between two batches: an interrupted batch is replayed anyway, but would leave noise in the log."""
    pause = threading.Event()
    batch = _batch_of(query)
    while query.isActive and query.status["isTriggerActive"] and _batch_of(query) == batch:
        pause.wait(_POLL)
    query.stop()


def _batch_of(query: StreamingQuery) -> int | None:
    """The last batch that ended."""
    last = query.lastProgress
    return None if last is None else int(last["batchId"])


def _refs(stages: Iterable[Stage]) -> list[ResourceRef]:
    return [ref for stage in stages for ref in stage.resources]


def _set_default(failures: dict[ResourceRef, Exception], ref: ResourceRef, error: Exception) -> None:
    failures.setdefault(ref, error)


def _endless(resources: Sequence[ResourceRef]) -> NotQuietError:
    loop = " -> ".join(str(ref) for ref in (*resources, resources[0]))
    msg = f"{loop} feed one another and were not quiet after {_MOST_ROUNDS} rounds: let a filter end the loop"
    return NotQuietError(msg)


def _failed(failures: dict[ResourceRef, Exception]) -> ResourceFailedError:
    lines = [f"{ref} failed: {_short(error)}" for ref, error in failures.items()]
    return ResourceFailedError("\n".join(lines))


def _short(error: Exception) -> str:
    """Of a Spark error only what it says, without the JVM's stack and without the plan."""
    text = str(error)
    for noise in ("\n\tat ", "JVM stacktrace:", "\n=== Streaming Query ===", ";\n'"):
        text = text.split(noise, 1)[0]
    return f"{type(error).__name__}: {text.strip()}"

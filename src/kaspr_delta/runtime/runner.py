"""Run an application: stage by stage until quiet, or continuously until stopped."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

from kaspr_delta.control.rebuilds import comparison_in
from kaspr_delta.control.totals import last_of
from kaspr_delta.engine.batch.comparison import Comparison, any_shows_new, end_comparison, hide
from kaspr_delta.engine.batch.new_stream import have_nothing_to_do
from kaspr_delta.engine.batch.progress import folded_batches, folded_until, forget_old_daily
from kaspr_delta.engine.batch.recovery import Recovery
from kaspr_delta.engine.batch.sources import sources_of
from kaspr_delta.engine.batch.stream_run import ResourceRun
from kaspr_delta.engine.retention import clean_logs, removal_is_due, remove_old
from kaspr_delta.errors import NotQuietError, RebuildNeededError, may_pass
from kaspr_delta.plan.definition.application import Plan, Stage
from kaspr_delta.plan.definition.resources import ResourceRef, names_topics
from kaspr_delta.plan.definition.waiting import without_waiting
from kaspr_delta.runtime.current_views import create_current_view
from kaspr_delta.runtime.failures import Failures, disk_errors_explained
from kaspr_delta.runtime.report import RunReport
from kaspr_delta.runtime.resources import run_of
from kaspr_delta.runtime.run_events import (
    BatchDone,
    CaughtUp,
    Listener,
    Migrated,
    Started,
    StateRebuilt,
    Waits,
    ignore_event,
)
from kaspr_delta.runtime.scheduler import tasks_firing
from kaspr_delta.runtime.streams import Streams
from kaspr_delta.runtime.table_groups import TableGroups
from kaspr_delta.storage.layout import SYSTEM
from kaspr_delta.storage.lazy_session import runs_here
from kaspr_delta.storage.namespace import IsLost, lock_in_time
from kaspr_delta.storage.plan_tables import tables_of
from kaspr_delta.storage.settled import Settled
from kaspr_delta.storage.side_by_side import side_by_side
from kaspr_delta.storage.stored_results import is_to_replace
from kaspr_delta.storage.system_tables import SessionSystemTables
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.engine.batch.checkpoint import BatchId
    from kaspr_delta.engine.batch.progress import BatchReport

# Rounds of a loop of resources that feed one another, before it counts as endless.
_MOST_ROUNDS = 100
# Seconds between two checks of running queries, two ticks of timed work, and two deletions of expired rows.
_POLL = 0.1
_TICK = 1.0
_CLEANING = 60.0
# The kinds of resources that may have a table of differences. Others may have the name of one.
_WITH_RESULTS = ("join", "table")
# Seconds after which a continuous run tries resources again that failed, if they may go well then.
_TRY_AGAIN = 300.0
# The same where all have failed, and say what to do: what mends it may be neither a manifest nor a source.
_TRY_ALL_AGAIN = 3_600.0


@dataclass
class Runner:
    """Runs the resources of a plan on one warehouse; those that wait are in no stage or group of a plan.

    ``started`` holds the moment from which each schedule counts.
    """

    spark: SparkSession
    delta: Tables
    plan: Plan
    listener: Listener = ignore_event
    started: dict[ResourceRef, datetime] = field(default_factory=dict)
    # See Failures.
    waiting: Callable[[], Mapping[ResourceRef, str]] = dict
    # The resources whose state this run has made anew, with the reasons.
    rebuilt: dict[ResourceRef, str] = field(default_factory=dict, init=False)
    # The comparisons that were made, in words.
    compared: dict[ResourceRef, str] = field(default_factory=dict, init=False)
    _runs: dict[ResourceRef, ResourceRun] = field(default_factory=dict, init=False)
    _lost: list[IsLost] = field(default_factory=list, init=False)
    # Set to end a run before it is quiet.
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _failures: Failures = field(init=False)
    _all: frozenset[ResourceRef] = field(default=frozenset(), init=False)
    # By resource the error for which a run before this one has ended.
    _failed_before: Mapping[ResourceRef, str] = field(default_factory=dict, init=False)
    # The number of failures that ``_is_over`` has seen, and when it saw the last one.
    _seen: int = field(default=0, init=False)
    _seen_at: float = field(default=0.0, init=False)
    # When expired rows were deleted, and whether a table that a round has read got columns meanwhile.
    _cleaned_at: float = field(default=0.0, init=False)
    _new_columns: bool = field(default=False, init=False)
    _table_groups: TableGroups = field(init=False)
    # The batches of the runner from which this one goes on.
    _before: Sequence[tuple[ResourceRef, BatchReport]] = field(default=(), init=False)
    # The batches that were folded before the run (see ``folded_batches``); None until it has locks.
    _folded: Mapping[str, Mapping[str, int]] | None = field(default=None, init=False)
    # The tasks that have run.
    _fired: set[ResourceRef] = field(default_factory=set, init=False)
    # The batches that a run until quiet has folded here; None in other runs, of which nobody asks for a report.
    _reports: list[tuple[ResourceRef, BatchReport]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._table_groups = TableGroups(self.spark, self.delta.namespace, self._runs)
        self._failures = Failures(self._runs, self.listener, self.waiting)

    def run_if_idle(self, only: Collection[ResourceRef] = (), stop: threading.Event | None = None) -> RunReport | None:
        """Run resources of which none has anything to do. None if one has, or had: ``until_quiet`` has to go on.

        A named task always has something to do. Whether an endpoint has, its stream alone tells, so endpoints are read.
        Raises like ``until_quiet``.
        """
        self._stop, self._reports = stop or self._stop, [*self._before]
        if self._folded is not None:  # the runner before this one has read endpoints
            return None
        stages = self._stages(only)
        if any(task.ref in only for task in self.plan.tasks) or not self._has_nothing_to_do(stages):
            return None
        refs = _refs(stages)
        endpoints = [ref for ref in refs if any(one.is_endpoint for one in sources_of(self.plan, ref).values())]
        if endpoints:
            with self._recovered(endpoints, cleans=False):
                rows = self._round(endpoints)
            if rows or self._stop.is_set() or any(ref in self._failures for ref in endpoints):
                return None
        for ref in refs:
            if ref not in endpoints:
                self.listener(Started(ref))
                self.listener(CaughtUp(ref))
        self._failures.tell()
        return RunReport({})

    def until_quiet(self, only: Collection[ResourceRef] = (), stop: threading.Event | None = None) -> RunReport:
        """Run all resources, in dependency order, until none has anything to do, or ``stop`` is set.

        Returns a report of each resource. After ``stop``, running batches are finished and folded. A task runs once if
        it is named in ``only``, otherwise not. Raises ResourceFailedError if a resource failed (its dependents still
        ran on the rows that they had), AlreadyRunningError and NotQuietError.
        """
        idle = self.run_if_idle(only, stop)
        if idle is not None:
            return idle
        stages, tasks = self._stages(only), [task.ref for task in self.plan.tasks if task.ref in only]
        with self._recovered([*_refs(stages), *tasks]):
            stages = self._stages(only)
            for ref in tasks:
                if ref not in self._fired:
                    self._attempted(ref, self._fire)
            for _ in range(_MOST_ROUNDS):
                rows = sum(self._until_stage_quiet(stage) for stage in stages)
                # A topic that a nameSelector names may be read by any stage, also by an earlier one.
                if rows == 0 or not self._sends_anywhere(stages):
                    break
            else:
                raise _endless(_refs(stages))
        self._failures.tell()
        if runs_here(self.spark):  # else batches ran elsewhere
            return RunReport.of(self._reports or (), self.rebuilt)
        return RunReport.after(self.spark, self.delta, last_of(self._folded or {}), self.rebuilt)

    def continuously(
        self,
        stop: threading.Event,
        every: int,
        only: Collection[ResourceRef] = (),
        changed: Callable[[], bool] = lambda: False,
        failed_before: Mapping[ResourceRef, str] | None = None,
    ) -> None:
        """Keep all resources running until ``stop`` is set, tasks by their schedules. Running batches are finished.

        ``every`` is the number of milliseconds between two looks of a resource for new rows. The run also ends when
        ``changed`` returns True, when a table that is read got columns, when a resource needs a rebuild, and some time
        after one failed that may go well later: the next run tries it again. Resources that fail do not stop the
        others. Raises ResourceFailedError if all have failed, or if some have when ``stop`` is set. If they are those
        that ``failed_before``, with the same errors, and these say what to do, a run has ended for that already: this
        one waits for an hour, and ends without an error.
        """
        refs = _refs(self._stages(only))
        tasks = [task for task in self.plan.tasks if not only or task.ref in only]
        self._all = frozenset([*refs, *(task.ref for task in tasks)])
        self._failed_before = failed_before or {}
        with self._recovered([*refs, *(task.ref for task in tasks)]):
            refs = [ref for ref in refs if ref not in self._failures]
            schedules = [(self._runs[task.ref], task.schedule) for task in tasks if task.ref not in self._failures]
            run = self._streaming if runs_here(self.spark) else self._again_and_again
            if not self._failures.rebuilds:
                with tasks_firing(self.spark, schedules, self._failures.note, self.started):
                    run(refs, stop, every, changed)
        if stop.is_set() or (not self.rebuilds and self._has_failed):
            self._failures.tell()

    def rebuild(self, ref: ResourceRef, patience: float = 0) -> RunReport:
        """Rebuild a resource's state. Returns a report of it.

        Raises AlreadyRunningError if another process still runs it after ``patience`` seconds, and NotFoundError.
        """
        with self._alone(ref, patience) as recovery:
            folded = folded_batches(self.delta, self.spark)
            recovery.rebuild(self.spark)
            end_comparison(self.delta, self.spark, ref, self.plan.reaction(ref))
        return RunReport.after(self.spark, self.delta, last_of(folded))

    def compare(self, ref: ResourceRef, patience: float = 0) -> Comparison:
        """Write the rows that ``rebuild`` would change into the table of differences. Raises like it."""
        with self._alone(ref, patience) as recovery:
            comparison = recovery.compare(self.spark)
        self.compared[ref] = str(comparison)
        return comparison

    def show(self, ref: ResourceRef, patience: float = 0) -> int:
        """Let the current view show what ``rebuild`` would make. Returns the number of rows. Raises like it."""
        with self._alone(ref, patience) as recovery:
            number = recovery.show(self.spark)
            self._turn_view(ref)
        return number

    def hide(self, ref: ResourceRef, patience: float = 0) -> None:
        """Let the current view show the stored result. Raises like ``rebuild``."""
        with self._alone(ref, patience):
            hide(self.delta, self.spark, ref)
            self._turn_view(ref)

    def _turn_view(self, ref: ResourceRef) -> None:
        """Make the current view anew where the columns of both results differ: else its rows have turned already."""
        if is_to_replace(self.plan, ref):
            create_current_view(self.spark, self.delta, self.plan, ref, anew=True)

    @contextlib.contextmanager
    def _alone(self, ref: ResourceRef, patience: float) -> Iterator[Recovery]:
        """Hold the lock of a resource that does not run, and yield its recovery."""
        with disk_errors_explained(self.delta), contextlib.ExitStack() as held:
            lock_in_time(held, self.delta.namespace, str(ref), patience)
            yield run_of(self.delta, self.plan, ref).recovery

    def _again_and_again(
        self, refs: Sequence[ResourceRef], stop: threading.Event, every: int, changed: Callable[[], bool]
    ) -> None:
        """Run streams that end, as a run until quiet does, with a pause after each round.

        On Spark Connect batches run in other processes. Only after a stream has ended does this process know that no
        batch is running, so that timed work may run. Serverless compute, which is Connect, has only streams that end.
        """
        self._stop, pause = stop, every / 1_000
        for ref in refs:
            self._runs[ref].in_rounds = True
        while not self._is_over:
            self._round(refs)
            if self._new_columns or stop.wait(pause) or self._is_lost or changed():
                return
            self._clean_sometimes()

    def _streaming(
        self, refs: Sequence[ResourceRef], stop: threading.Event, every: int, changed: Callable[[], bool]
    ) -> None:
        """Run streams that do not end by themselves; where compute refuses them, streams that end."""
        with Streams(self.spark, self._runs, self._failures, every, self.listener, lambda: self._is_lost) as streams:
            streams.start(refs)
            if not streams.must_end:
                self._watch(streams, refs, stop, changed)
        streams.note_failures()
        if streams.must_end:
            self._again_and_again(refs, stop, every, changed)

    def _watch(
        self, streams: Streams, refs: Sequence[ResourceRef], stop: threading.Event, changed: Callable[[], bool]
    ) -> None:
        """Watch streams until ``stop`` is set, a lock is lost, the plan or columns have changed, or ``_is_over``."""
        ticked = time.monotonic()
        while not (self._is_over or stop.wait(_POLL)):
            streams.revive()
            if self._is_lost or changed() or streams.took_new_columns:
                return
            if time.monotonic() - ticked >= _TICK:
                for ref in refs:
                    if ref not in self._failures:
                        streams.tick(ref)
                streams.tell_lag()
                ticked = time.monotonic()
            self._clean_sometimes()

    def go_on_from(self, other: Runner) -> None:
        """Take over what another runner has done in this run: it belongs to the report, and to the events after it."""
        self._before, self._folded = tuple(other._reports or ()), other._folded
        self._fired |= other._fired
        self.rebuilt.update(other.rebuilt)
        self.compared.update(other.compared)

    @property
    def rebuilds(self) -> Mapping[ResourceRef, str]:
        """The resources that need a rebuild, with the reasons."""
        return self._failures.rebuilds

    @property
    def failures(self) -> Mapping[ResourceRef, str]:
        """The resources that failed otherwise, each with its error and where that was raised."""
        return self._failures.accounts

    @property
    def failed(self) -> int:
        """The number of resources that have failed."""
        return len(self._failures.errors)

    @property
    def _is_over(self) -> bool:
        """Whether failures end a continuous run: all have failed, one needs a rebuild, or it is time to try again."""
        errors = self._failures.errors.copy()
        if len(errors) > self._seen:
            self._seen, self._seen_at = len(errors), time.monotonic()
        pause = math.inf
        if any(map(may_pass, errors.values())):
            pause = _TRY_AGAIN
        elif self._all_have_failed:
            pause = _TRY_ALL_AGAIN
        return time.monotonic() - self._seen_at > pause or bool(self.rebuilds) or self._has_failed

    @property
    def _has_failed(self) -> bool:
        """Whether a continuous run ends because all have failed: something may pass, or no run has ended for that."""
        if not self._all_have_failed:
            return False
        accounts = self._failures.accounts
        is_new = any(accounts.get(ref, "").partition("\n")[0] != self._failed_before.get(ref) for ref in self._all)
        return is_new or any(map(may_pass, self._failures.errors.copy().values()))

    @property
    def _all_have_failed(self) -> bool:
        errors = self._failures.errors.copy()
        return bool(errors) and self._all <= errors.keys()

    @property
    def _is_lost(self) -> bool:
        """Whether another process took one of the locks, or may have. If it did, releasing that one raises an error."""
        return any(is_lost() for is_lost in self._lost)

    def _clean_sometimes(self) -> None:
        if time.monotonic() - self._cleaned_at >= _CLEANING:
            self._remove_old()
            self._clean_logs()

    def _clean_logs(self) -> None:
        clean_logs(self.delta, [*((table, layout) for _, table, layout in tables_of(self.plan)), *SYSTEM.items()])

    def _remove_old(self) -> None:
        remove_old(self.delta, self.spark, self.plan, self._failures.note)
        self._cleaned_at = time.monotonic()

    def _until_stage_quiet(self, stage: Stage) -> int:
        total = 0
        for _ in range(_MOST_ROUNDS):
            rows = self._round(stage.resources)
            total += rows
            if rows == 0 or not stage.loop:
                return total
        raise _endless(stage.resources)

    def _round(self, refs: Sequence[ResourceRef]) -> int:
        """Run resources once on the rows available now, side by side if they may. Returns the number of rows."""
        refs = [ref for ref in refs if ref not in self._failures]
        return sum(self._round_of(some) for some in self._table_groups.apart(refs))

    def _round_of(self, refs: Sequence[ResourceRef]) -> int:
        if self._stop.is_set():
            return 0
        refs = [ref for ref in refs if ref not in self._failures]
        with (
            self._table_groups.held(refs),
            Streams(self.spark, self._runs, self._failures, None, self.listener) as streams,
        ):
            streams.start(refs)
            rows = sum(self._attempted(ref, lambda ref: self._processed(streams, ref)) for ref in refs)
        if self._stop.is_set():  # some queries may have failed without being awaited
            streams.note_failures()
        self._new_columns |= streams.took_new_columns
        return rows

    def _processed(self, streams: Streams, ref: ResourceRef) -> int:
        """Let a resource process all available rows, and those that it holds back. Returns the number of rows."""
        rows, run = streams.await_processed(ref, self._stop), self._runs[ref]
        if run.resource.timed and not self._stop.is_set():  # no later rows will come in this run
            rows += run.runner.tick(self.spark, ending=True)
        return rows

    def _fire(self, task: ResourceRef) -> int:
        """Run a task once. Returns the number of rows."""
        rows = self._runs[task].runner.tick(self.spark, ending=True)
        self._fired.add(task)
        return rows

    def _attempted(self, ref: ResourceRef, work: Callable[[ResourceRef], int]) -> int:
        """Let a resource do some work. Returns the number of rows. If it fails, the others go on."""
        if ref in self._failures or self._stop.is_set():
            return 0
        rows = 0
        with self._failures.noting(ref):
            rows = work(ref)
        if ref not in self._failures and not self._stop.is_set():
            self.listener(CaughtUp(ref))
        return rows

    def _has_nothing_to_do(self, stages: Sequence[Stage]) -> bool:
        """Whether no resource has anything to do. Asked before the locks where these are leases, which take seconds.

        It reads, and deletes rows that are older than their retention, which any run may do at any time. So it needs no
        lock: if another run works meanwhile, this one sees its unfolded batches or the commits that it has not read
        yet, and asks for the locks; or all is done, and what comes later is for later runs.
        """
        namespace = self.delta.namespace
        if namespace.locks_bind_other_processes or namespace.streams_go_on:  # only Spark's checkpoint knows the rest
            return False
        try:
            refs = _refs(stages)
            compared = [ref for ref in refs if self.plan.reaction(ref) == "side-by-side"]
            if any_shows_new(self.delta, self.spark, compared):  # perhaps a rebuild was killed
                return False
            runners = [run_of(self.delta, self.plan, ref).runner for ref in refs]
            settled, now = Settled(namespace.checkpoints), datetime.now(timezone.utc)
            if removal_is_due(self.plan, settled.old_removed_at(), now):
                self._remove_old()  # before the look: the readers of a table see its deletions in this run
                settled.note_old_removed(now)
            return have_nothing_to_do(self.spark, runners, folded_batches(self.delta, self.spark))
        except Exception:  # noqa: BLE001  under the locks it is raised again, and the resource is named
            return False

    def _sends_anywhere(self, stages: Iterable[Stage]) -> bool:
        agents = [self.plan.agent(ref.name) for ref in _refs(stages) if ref.kind == "agent"]
        return any(agent is not None and names_topics(agent) for agent in agents)

    def _stages(self, only: Iterable[ResourceRef]) -> list[Stage]:
        wanted = set(only) or set(self.plan.runs)
        chosen = (Stage(tuple(ref for ref in one.resources if ref in wanted), one.loop) for one in self.plan.stages)
        return [stage for stage in chosen if stage.resources]

    @contextlib.contextmanager
    def _recovered(self, refs: Sequence[ResourceRef], *, cleans: bool = True) -> Iterator[None]:
        """Hold the locks of the resources, recover them from a killed run, and, if it ``cleans``, remove what is old.

        Where locks do not bind other processes, those of resources that share their tables are held too.
        """
        with disk_errors_explained(self.delta), contextlib.ExitStack() as held:
            namespace = self.delta.namespace
            locks = [partial(held.enter_context, namespace.resource_lock(str(ref))) for ref in self._to_lock(refs)]
            # A lease of a killed process takes half a minute. Of two runs that start at once, the first lock decides
            # which one goes on. A kernel lock belongs to its thread.
            first, rest = (locks, []) if namespace.locks_bind_other_processes else (locks[:1], locks[1:])
            self._lost = [*(lock() for lock in first), *side_by_side(rest)]
            for ref in refs:
                with self._failures.noting(ref):
                    self._runs[ref] = self._run_of(ref)
            folded, reported_at = folded_until(self.delta, self.spark)
            self._folded = folded if self._folded is None else self._folded
            work: list[Callable[[], None]] = [partial(self._recover, ref, folded) for ref in self._runs]
            work.append(partial(forget_old_daily, self.delta, self.spark, reported_at))
            if cleans and not self._cleaned_at:
                work += [self._remove_old, self._clean_logs]
            side_by_side(work)
            self.plan = without_waiting(self.plan, self.rebuilds)
            for ref, reason in self.plan.waiting:
                if ref in refs and ref not in self._failures:
                    self.listener(Waits(ref, reason))
            yield

    def _run_of(self, ref: ResourceRef) -> ResourceRun:
        run = run_of(self.delta, self.plan, ref)
        others = self._companions(ref)
        run.runner.companions = tuple(run_of(self.delta, self.plan, other).runner for other in others)
        for other, companion in zip(others, run.runner.companions, strict=True):
            companion.listener = partial(self._note_report, other)
        run.runner.listener = partial(self._batch_done, ref)
        return run

    def _batch_done(self, ref: ResourceRef, batch: BatchId, report: BatchReport) -> None:
        self._note_report(ref, batch, report)
        self.listener(BatchDone(ref, batch, report))

    def _note_report(self, ref: ResourceRef, _: BatchId, report: BatchReport) -> None:
        if self._reports is not None:
            self._reports.append((ref, report))

    def _recover(self, ref: ResourceRef, folded: dict[str, dict[str, int]]) -> None:
        with self._failures.noting(ref):
            try:
                done = self._runs[ref].recovery.recover(self.spark, folded)
            except RebuildNeededError as error:
                raise error.after(self._comparison(ref)) from None
            if ref.kind in _WITH_RESULTS:
                end_comparison(self.delta, self.spark, ref, self.plan.reaction(ref))
            if done.migrated is not None:
                self.listener(Migrated(ref, done.migrated))
            if done.rebuilt is not None:
                self.rebuilt[ref] = done.rebuilt
                self.listener(StateRebuilt(ref, done.rebuilt))

    def _comparison(self, ref: ResourceRef) -> str:
        """The comparison of a resource with its changed definition, in words. It is made once for each definition."""
        if self.plan.reaction(ref) != "side-by-side":
            return ""
        run = self._runs[ref]
        query = SessionSystemTables(self.spark, self.delta).query
        known = comparison_in(query, ref, run.resource.definition)
        if not known:
            known = self.compared[ref] = str(run.recovery.compare(self.spark))
        return known

    def _to_lock(self, refs: Sequence[ResourceRef]) -> list[ResourceRef]:
        """The resources to lock, and, if locks do not bind other processes, those that share tables with them."""
        companions = () if self.delta.namespace.locks_bind_other_processes else map(self._companions, refs)
        return list(dict.fromkeys([*refs, *(one for some in companions for one in some)]))

    def _companions(self, ref: ResourceRef) -> list[ResourceRef]:
        return [other for other in self.plan.group_of(ref) if other != ref]


def _refs(stages: Iterable[Stage]) -> list[ResourceRef]:
    return [ref for stage in stages for ref in stage.resources]


def _endless(resources: Sequence[ResourceRef]) -> NotQuietError:
    loop = " -> ".join(str(ref) for ref in (*resources, resources[0]))
    return NotQuietError(
        f"{loop} feed one another and were not quiet after {_MOST_ROUNDS} rounds: let a filter end the loop"
    )

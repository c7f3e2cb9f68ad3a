"""Run tasks by their schedules. Each task has its own thread, so that a slow one delays no other."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from kaspr_delta import steady_clock
from kaspr_delta.engine.batch.stream_run import ResourceRun
from kaspr_delta.plan.definition.resources import ResourceRef, SchedulePlan
from kaspr_delta.runtime.firings import firings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OnFailure = Callable[[ResourceRef, Exception], None]
Now = Callable[[], datetime]

# Seconds between two reads of a clock that may be set meanwhile.
_LOOK = 1.0
_BEGAN = datetime.now(timezone.utc)
_BEGAN_AT = steady_clock.seconds()


@contextlib.contextmanager
def tasks_firing(
    spark: SparkSession,
    tasks: Iterable[tuple[ResourceRun, SchedulePlan | None]],
    failed: OnFailure,
    started: MutableMapping[ResourceRef, datetime],
) -> Iterator[None]:
    """Run tasks when they are due. At the end, running tasks are finished.

    ``failed`` is called with the error that stopped a task for good. ``started`` holds the moment from which each
    schedule counts, by the schedule's clock: a task in it continues its schedule, and missed runs are skipped.
    """
    stop = threading.Event()
    threads = [
        threading.Thread(
            target=_keep_firing, args=(spark, run, schedule, stop, failed, started), name=str(run.resource.ref)
        )
        for run, schedule in tasks
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _keep_firing(  # noqa: PLR0913, PLR0917  a thread is given all it needs
    spark: SparkSession,
    run: ResourceRun,
    schedule: SchedulePlan | None,
    stop: threading.Event,
    failed: OnFailure,
    started: MutableMapping[ResourceRef, datetime],
) -> None:
    now = _clock_of(schedule)
    free = now()
    try:
        for moment in firings(schedule, started.setdefault(run.resource.ref, free)):
            if moment < free:  # it fell into the previous run: missed runs are skipped
                continue
            if not _comes(moment, now, stop):
                return
            run.runner.tick(spark, ending=False)
            free = now()
    except Exception as error:  # noqa: BLE001  a thread has no caller that could catch it
        failed(run.resource.ref, error)


def _clock_of(schedule: SchedulePlan | None) -> Now:
    """The clock of a schedule: for cron the time of day, also after it is set; for an interval a steady clock."""
    if schedule is not None and schedule.cron is not None:
        return lambda: datetime.now(timezone.utc)
    return lambda: _BEGAN + timedelta(seconds=steady_clock.seconds() - _BEGAN_AT)


def _comes(moment: datetime, now: Now, stop: threading.Event) -> bool:
    """Wait until a moment, by a clock that may be set meanwhile. Returns False if ``stop`` is set first."""
    while not stop.wait(max(0.0, min((moment - now()).total_seconds(), _LOOK))):
        if now() >= moment:
            return True
    return False

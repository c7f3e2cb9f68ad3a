"""Tasks by the clock: each has a thread of its own, so that a slow one delays no other."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from kaspr_delta.engine.query import Query
from kaspr_delta.plan.definition import ResourceRef, SchedulePlan
from kaspr_delta.runtime.schedule import firings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Failed = Callable[[ResourceRef, Exception], None]


@contextlib.contextmanager
def tasks_firing(
    spark: SparkSession, tasks: Iterable[tuple[Query, SchedulePlan | None]], failed: Failed
) -> Iterator[None]:
    """Run tasks when they are due; runs under way are finished. ``failed`` is told what stopped one for good."""
    stop = threading.Event()
    threads = [
        threading.Thread(target=_keep_firing, args=(spark, query, schedule, stop, failed), name=str(query.resource.ref))
        for query, schedule in tasks
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _keep_firing(
    spark: SparkSession, query: Query, schedule: SchedulePlan | None, stop: threading.Event, failed: Failed
) -> None:
    free = start = datetime.now(timezone.utc)
    try:
        for moment in firings(schedule, start):
            if moment < free:  # it fell into the run before: what was missed is not made up for
                continue
            if stop.wait(max(0.0, (moment - datetime.now(timezone.utc)).total_seconds())):
                return
            query.tick(spark, ending=False)
            free = datetime.now(timezone.utc)
    except Exception as error:  # noqa: BLE001  a thread has nobody above it who could be told
        failed(query.resource.ref, error)

"""The moments at which a task is due, by its schedule."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim

from kaspr_delta.plan.definition.resources import SchedulePlan
from kaspr_delta.spec.cron import for_cronsim


def firings(schedule: SchedulePlan | None, start: datetime) -> Iterator[datetime]:
    """The moments at which a task is due, in UTC or the schedule's time zone; without a schedule once, at the start.

    The first run of an interval comes when the interval has passed. Cron follows Debian's cron: when clocks are put
    forward, a run in the missing hour is due at its end.
    """
    if schedule is None:
        yield start
    elif schedule.interval is not None:
        length = timedelta(milliseconds=schedule.interval)
        moment = start
        while True:
            moment += length
            yield moment
    elif schedule.cron is not None:
        yield from CronSim(for_cronsim(schedule.cron), start.astimezone(ZoneInfo(schedule.timezone)))

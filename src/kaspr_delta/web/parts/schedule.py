"""The schedule of a task in words, and its next runs."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from itertools import islice

from kaspr_delta.plan.definition.resources import SchedulePlan
from kaspr_delta.runtime.firings import firings
from kaspr_delta.spec.durations import duration_text

_NEXT = 5


def in_words(schedule: SchedulePlan | None) -> str:
    """When a task runs.

    >>> in_words(SchedulePlan(30_000, None, "UTC")), in_words(SchedulePlan(None, "30 6 * * 1-5", "Europe/Berlin"))
    ('every 30s', 'at 06:30, Monday to Friday (Europe/Berlin)')
    >>> in_words(SchedulePlan(None, "*/15 * * * *", "UTC")), in_words(SchedulePlan(None, "0 0 1,15 * *", "UTC"))
    ('every 15 minutes (UTC)', 'by cron 0 0 1,15 * * (UTC)')
    """
    if schedule is None:
        return "once, at the start of a run"
    if schedule.cron is None:
        return f"every {duration_text(schedule.interval or 0)}"
    return f"{_cron_in_words(schedule.cron)} ({schedule.timezone})"


def next_runs(schedule: SchedulePlan | None, last: datetime | None) -> list[datetime]:
    """The next moments at which a continuous run starts the task; those of an interval count from its last run."""
    if schedule is None or (schedule.interval is not None and last is None):
        return []
    start = datetime.now(timezone.utc)
    if schedule.interval is not None and last is not None:
        length = timedelta(milliseconds=schedule.interval)
        start = last + max(0, (start - last) // length) * length
    return list(islice(firings(schedule, start), _NEXT))


def _cron_in_words(text: str) -> str:
    """The common texts in words, others as they are."""
    if text.startswith("@"):
        return text.removeprefix("@")
    minute, hour, *days = text.replace("?", "*").split()[:5]
    is_daily = days == ["*", "*", "*"]
    if len(text.split()) == len(_FIELDS):
        if hour == "*" and is_daily and (step := re.fullmatch(r"\*/([1-9]\d*)", minute)) and not 60 % int(step[1]):
            return f"every {step[1]} minutes"
        if hour == "*" and is_daily and minute in {"*", "0"}:
            return "every minute" if minute == "*" else "every hour"
        if minute.isdecimal() and hour.isdecimal() and days[:2] == ["*", "*"] and (named := _weekdays(days[2])):
            return f"at {int(hour):02}:{int(minute):02}, {named}"
    return f"by cron {text}"


_FIELDS = ("minute", "hour", "day", "month", "weekday")
_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _weekdays(text: str) -> str:
    """A field of weekdays in words; empty for one that has none."""
    if text == "*":
        return "every day"
    days = re.fullmatch(r"([0-7])(?:-([0-7]))?", text)
    if days is None:
        return ""
    first, last = _NAMES[int(days[1])], days[2]
    return f"{first} to {_NAMES[int(last)]}" if last else f"each {first}"

"""Translates the schedule of a task of the manifests into a Databricks trigger."""

from __future__ import annotations

from collections.abc import Iterator

from databricks.bundles.jobs import (
    CronSchedule,
    PeriodicTriggerConfiguration,
    PeriodicTriggerConfigurationTimeUnit,
    TriggerSettings,
)

from kaspr_delta.plan.definition.resources import SchedulePlan
from kaspr_delta.spec.cron import for_cronsim

_MINUTE = 60_000
_UNITS = (
    (7 * 24 * 60 * _MINUTE, PeriodicTriggerConfigurationTimeUnit.WEEKS),
    (24 * 60 * _MINUTE, PeriodicTriggerConfigurationTimeUnit.DAYS),
    (60 * _MINUTE, PeriodicTriggerConfigurationTimeUnit.HOURS),
    (_MINUTE, PeriodicTriggerConfigurationTimeUnit.MINUTES),
)
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")


def trigger_of(schedule: SchedulePlan) -> CronSchedule | TriggerSettings | None:
    """The trigger that starts a job when the task is due; None if only a job that never ends can keep the schedule.

    None if runs come more often than once a minute, if the interval is not a whole number of minutes, or if cron text
    names both a day of the month and a weekday: cron runs on either, which quartz cannot express.
    """
    if schedule.interval is not None:
        return _every(schedule.interval)
    quartz = quartz_of(schedule.cron or "")
    return None if quartz is None else CronSchedule(quartz_cron_expression=quartz, timezone_id=schedule.timezone)


def quartz_of(cron: str) -> str | None:
    """Cron text as quartz cron text with the same firing times; None if there is none.

    >>> quartz_of("*/15 9-17 * * mon-fri")
    '0 */15 9-17 ? * MON,TUE,WED,THU,FRI'
    >>> quartz_of("0 0 1 * mon")
    """
    fields = for_cronsim(cron).upper().split()
    second = fields.pop(0) if len(fields) == 6 else "0"  # noqa: PLR2004  six: with seconds, which come first here
    minute, hour, day, month, weekday = fields
    if not second.isdecimal() or "*" not in {day, weekday}:
        return None
    days = f"? {month} {','.join(_weekdays(weekday))}" if weekday != "*" else f"{day} {month} ?"
    return f"{second} {minute} {hour} {days}"


def _every(milliseconds: int) -> TriggerSettings | None:
    for length, unit in _UNITS:
        if milliseconds % length == 0:
            return TriggerSettings(periodic=PeriodicTriggerConfiguration(interval=milliseconds // length, unit=unit))
    return None


def _weekdays(field: str) -> list[str]:
    """The weekdays of a cron field by name, because quartz numbers the days differently."""
    return list(dict.fromkeys(_WEEKDAYS[number] for part in field.split(",") for number in _numbers(part)))


def _numbers(part: str) -> Iterator[int]:
    span, _, step = part.partition("/")
    first, _, last = span.partition("-")
    if first == "*":
        begin, end = 0, 6
    else:
        begin = _weekday(first)
        end = _weekday(last) if last else 6 if step else begin
    yield from range(begin, end + 1, int(step or 1))


def _weekday(text: str) -> int:
    return int(text) if text.isdecimal() else _WEEKDAYS.index(text)

"""Translates the schedule of a task of the manifests into a Databricks trigger."""

from __future__ import annotations

from datetime import datetime, timezone

from cronsim import CronSim
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
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")  # cronsim counts them from 0 to 7


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
    # Any moment will do: only the fields are looked at.
    parsed = CronSim(for_cronsim(cron), datetime(2000, 1, 1, tzinfo=timezone.utc))
    second, minute, hour, day, month, weekday = parsed.parts
    if not second.isdecimal() or "*" not in {day, weekday}:
        return None
    # By name, because quartz numbers the days differently.
    names = ",".join(dict.fromkeys(name for number, name in enumerate(_WEEKDAYS) if number in parsed.weekdays))
    days = f"? {month} {names}" if weekday != "*" else f"{day} {month} ?"
    return f"{second} {minute} {hour} {days}"


def _every(milliseconds: int) -> TriggerSettings | None:
    for length, unit in _UNITS:
        if milliseconds % length == 0:
            return TriggerSettings(periodic=PeriodicTriggerConfiguration(interval=milliseconds // length, unit=unit))
    return None

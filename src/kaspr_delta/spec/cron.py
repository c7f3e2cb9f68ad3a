"""Cron text: five fields (minute, hour, day, month, weekday) and an optional sixth, the seconds."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from cronsim import CronSim, CronSimError

_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    ("weekday", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
    ("second", 0, 59, ()),
)
_SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_PART = re.compile(r"^(?P<first>\*|\?|\w{1,9})(?:-(?P<last>\w{1,9}))?(?:/(?P<step>\d{1,9}))?\Z", re.ASCII)
_LEAST_FIELDS = 5


def cron_problem(text: str) -> str | None:
    """The problem with a cron text, or None.

    >>> cron_problem("*/15 * * * *")
    >>> cron_problem("0 24 * * *")
    "hour '24' is not between 0 and 23"
    """
    if text.strip().lower() in _SHORTHANDS:
        return None
    fields = text.split()
    if not _LEAST_FIELDS <= len(fields) <= len(_FIELDS):
        return f"a cron text has 5 fields (or 6, with seconds last), '{text}' has {len(fields)}"
    for field, (name, low, high, names) in zip(fields, _FIELDS, strict=False):
        for part in field.split(","):
            if problem := _part_problem(part, name, low, high, names):
                return problem
    try:
        CronSim(for_cronsim(text), datetime(2000, 1, 1, tzinfo=timezone.utc))
    except CronSimError as error:
        return f"'{text}' never comes: {str(error).lower()}"
    return None


def for_cronsim(text: str) -> str:
    """A cron text in the format of cronsim: seconds first, no shorthands.

    >>> for_cronsim("0 9 ? * mon 30"), for_cronsim("@daily")
    ('30 0 9 * * mon', '0 0 * * *')
    """
    fields = _SHORTHANDS.get(text.strip().lower(), text).replace("?", "*").split()
    return " ".join([*fields[_LEAST_FIELDS:], *fields[:_LEAST_FIELDS]])


def _part_problem(part: str, name: str, low: int, high: int, names: tuple[str, ...]) -> str | None:
    match = _PART.match(part)
    if match is None:
        return f"'{part}' is no {name}"
    if match["step"] is not None and int(match["step"]) == 0:
        return f"the step of '{part}' is zero"
    if match["first"] in {"*", "?"}:
        return f"'{part}' is no {name}" if match["last"] else None
    bounds: list[int] = []
    for bound in (match["first"], match["last"]):
        if bound is None:
            continue
        number = names.index(bound.lower()) + low if bound.lower() in names else None
        if number is None and bound.isdigit():
            number = int(bound)
        if number is None or not low <= number <= high:
            return f"{name} '{bound}' is not between {low} and {high}"
        bounds.append(number)
    return f"'{part}' ends before it begins" if bounds != sorted(bounds) else None

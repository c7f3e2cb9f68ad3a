"""Quartz cron text, for schedules on Databricks. A workspace refuses a wrong one late; this check refuses it early."""

from __future__ import annotations

import functools
import re
import zoneinfo

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("second", 0, 59, ()),
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 1, 7, _WEEKDAYS),
    ("year", 1970, 2199, ()),
)
_LEAST_FIELDS = 6
_DAY_OF_MONTH, _DAY_OF_WEEK = 3, 5
_PART = re.compile(r"(?P<first>\*|\w{1,9})(?:-(?P<last>\w{1,9}))?(?:/(?P<step>\d{1,9}))?", re.ASCII)
_SPECIAL = {
    "day of the month": re.compile(r"\?|L(-\d{1,2})?|LW|\d{1,2}W"),
    "day of the week": re.compile(r"\?|L|([1-7]|SUN|MON|TUE|WED|THU|FRI|SAT)(L|#[1-5])"),
}


def quartz_problem(text: str) -> str | None:
    """The problem with a Quartz cron text, or None.

    >>> quartz_problem("0 0/15 * * * ?")
    >>> quartz_problem("*/15 * * * *")
    "'*/15 * * * *' has 5 fields, expected 6 or 7: second minute hour day-of-month month day-of-week [year]"
    """
    fields = text.upper().split()
    if not _LEAST_FIELDS <= len(fields) <= len(_FIELDS):
        expected = "expected 6 or 7: second minute hour day-of-month month day-of-week [year]"
        return f"{text!r} has {len(fields)} field{'s' * (len(fields) != 1)}, {expected}"
    for field, (name, lowest, highest, words) in zip(fields, _FIELDS, strict=False):
        for part in field.split(","):
            special = _SPECIAL.get(name)
            if special is not None and special.fullmatch(part):
                continue
            problem = _part_problem(part, lowest, highest, words)
            if problem:
                return f"{text!r}: {name} {part!r} {problem}"
    if (fields[_DAY_OF_MONTH] == "?") == (fields[_DAY_OF_WEEK] == "?"):
        return f"{text!r}: exactly one of day of the month and day of the week is '?'"
    return None


@functools.cache
def known_timezones() -> frozenset[str]:
    """The names of the time zones that this machine knows. They are read from some hundred files, once."""
    return frozenset(zoneinfo.available_timezones())


def timezone_problem(name: str) -> str | None:
    """The problem with the name of a time zone, or None."""
    return None if name in known_timezones() else f"{name!r} is no time zone, expected a name such as Europe/Berlin"


def _part_problem(part: str, lowest: int, highest: int, words: tuple[str, ...]) -> str | None:
    match = _PART.fullmatch(part)
    if match is None:
        return "is not understood"
    first, last, step = match.group("first", "last", "step")
    if first == "*" and last is not None:
        return "is a range without a beginning"
    for end in (first, last):
        if end is None or end == "*" or end in words:
            continue
        if not end.isdecimal() or not lowest <= int(end) <= highest:
            return f"is not between {lowest} and {highest}"
    if step is not None and not 1 <= int(step) <= highest:
        return f"has a step that is not between 1 and {highest}"
    return None

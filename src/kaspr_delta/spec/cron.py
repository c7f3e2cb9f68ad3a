"""Cron text of tasks and of jobs, and time zones.

A task has five fields (minute, hour, day, month, weekday) and an optional sixth, the seconds. A job on Databricks has
Quartz' text: a workspace refuses a wrong one late, so it is checked here.
"""

from __future__ import annotations

import functools
import math
import re
import zoneinfo
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import pairwise

from cronsim import CronSim, CronSimError

_Field = tuple[str, int, int, tuple[str, ...]]
_SECOND: _Field = ("second", 0, 59, ())
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_COMMON: tuple[_Field, ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
)
_CRON = (*_COMMON, ("weekday", 0, 7, _WEEKDAYS), _SECOND)
_QUARTZ = (_SECOND, *_COMMON, ("day of the week", 1, 7, _WEEKDAYS), ("year", 1970, 2199, ()))
_SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_PART = re.compile(r"(?P<first>\*|\w{1,9})(?:-(?P<last>\w{1,9}))?(?:/(?P<step>\d{1,9}))?", re.ASCII)
_SPECIAL = {
    "day of the month": re.compile(r"\?|L(-\d{1,2})?|LW|\d{1,2}W"),
    "day of the week": re.compile(r"\?|L|([1-7]|SUN|MON|TUE|WED|THU|FRI|SAT)(L|#[1-5])"),
}
_DAY_OF_MONTH, _DAY_OF_WEEK = 3, 5
_DAYS_OF_MONTHS = (31, 28.25, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LONGEST_MONTH = 31


def cron_problem(text: str) -> str | None:
    """The problem with a cron text, or None.

    >>> cron_problem("*/15 * * * *")
    >>> cron_problem("0 24 * * *")
    "hour '24' is not between 0 and 23"
    """
    if text.strip().lower() in _SHORTHANDS:
        return None
    fields = text.split()
    if len(fields) not in {5, 6}:
        return f"a cron text has 5 fields (or 6, with seconds last), '{text}' has {len(fields)}"
    for part, field in _parts(fields, _CRON):
        if problem := _part_problem(part.replace("?", "*"), *field[1:], quartz=False):
            return f"{field[0]} '{part}' {problem}"
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
    return " ".join([*fields[5:], *fields[:5]])


def quartz_problem(text: str) -> str | None:
    """The problem with a Quartz cron text, or None.

    >>> quartz_problem("0 0/15 * * * ?")
    >>> quartz_problem("*/15 * * * *")
    "'*/15 * * * *' has 5 fields, expected 6 or 7: second minute hour day-of-month month day-of-week [year]"
    """
    fields = text.upper().split()
    if len(fields) not in {6, 7}:
        expected = "expected 6 or 7: second minute hour day-of-month month day-of-week [year]"
        return f"{text!r} has {len(fields)} field{'s' * (len(fields) != 1)}, {expected}"
    for part, field in _parts(fields, _QUARTZ):
        special = _SPECIAL.get(field[0])
        if special and special.fullmatch(part):
            continue
        if problem := _part_problem(part, *field[1:], quartz=True):
            return f"{text!r}: {field[0]} {part!r} {problem}"
    if (fields[_DAY_OF_MONTH] == "?") == (fields[_DAY_OF_WEEK] == "?"):
        return f"{text!r}: exactly one of day of the month and day of the week is '?'"
    return None


def quartz_firings_a_day(text: str) -> float:
    """How often a valid Quartz cron text fires a day, as the mean of all years; the field of the year does not count.

    >>> quartz_firings_a_day("0 0/15 * * * ?"), round(quartz_firings_a_day("0 30 6 ? * MON-FRI"), 2)
    (96.0, 0.71)
    """
    *clock, days, months, weekdays = zip(text.upper().split()[:6], _QUARTZ[:6], strict=True)
    times = math.prod(len(_quartz_values(*field)) for field in clock)
    lengths = [_DAYS_OF_MONTHS[month - 1] for month in _quartz_values(*months)]
    if weekdays[0] == "?":
        (dates, special) = _plain_and_special(*days)
        found = sum(max(0.0, min(1.0, length - date + 1)) for length in lengths for date in dates)
    else:
        (dates, special) = _plain_and_special(*weekdays)
        found = sum(lengths) * len(dates) / 7
    return times * (found + special * len(lengths)) / sum(_DAYS_OF_MONTHS)


def quartz_longest_pause(text: str) -> int:
    """The most hours, rounded up, between two firings of a valid Quartz cron text; a month if it names days of months.

    >>> [quartz_longest_pause(text) for text in ("0 0/10 * * * ?", "0 0 8,9 * * ?", "0 30 6 ? * MON-FRI")]
    [1, 23, 72]
    """
    *clock, days, months, weekdays = zip(text.upper().split()[:6], _QUARTZ[:6], strict=True)
    seconds, minutes, hours = (_quartz_values(*field) for field in clock)
    times = sorted(3_600 * hour + 60 * minute + second for hour in hours for minute in minutes for second in seconds)
    by_date = weekdays[0] == "?"
    dates, special = _plain_and_special(*(days if by_date else weekdays))
    if special or len(_quartz_values(*months)) < len(_DAYS_OF_MONTHS) or (by_date and len(dates) < _LONGEST_MONTH):
        return 24 * _LONGEST_MONTH
    week = range(1, 8) if by_date else sorted(dates)
    days_between: int = max(later - earlier for earlier, later in pairwise([*week, week[0] + 7]))
    pauses = [86_400 * days_between - times[-1] + times[0], *(later - earlier for earlier, later in pairwise(times))]
    return math.ceil(max(pauses) / 3_600)


@functools.cache
def known_timezones() -> frozenset[str]:
    """The names of the time zones that this machine knows. They are read from some hundred files, once."""
    return frozenset(zoneinfo.available_timezones())


def timezone_problem(name: str) -> str | None:
    """The problem with the name of a time zone, or None, also on a machine that knows no time zones."""
    wrong = name not in (known_timezones() or {name})
    return f"{name!r} is no time zone, expected a name such as Europe/Berlin" if wrong else None


def _parts(fields: list[str], of: tuple[_Field, ...]) -> Iterator[tuple[str, _Field]]:
    """The parts of all fields, which have commas between them, each with what its field allows."""
    for text, field in zip(fields, of, strict=False):
        yield from ((part, field) for part in text.split(","))


def _plain_and_special(text: str, field: _Field) -> tuple[set[int], int]:
    """The values of a field of days, and the number of parts such as ``L``, each of which names one day a month."""
    parts = text.replace("?", "*").split(",")
    if field[0] == "day of the week":  # there `L` is each Saturday
        parts = ["SAT" if part == "L" else part for part in parts]
    special = [part for part in parts if _SPECIAL[field[0]].fullmatch(part)]
    plain = ",".join(part for part in parts if part not in special)
    return _quartz_values(plain, field) if plain else set(), len(special)


def _quartz_values(text: str, field: _Field) -> set[int]:
    """The values of a valid field without special parts. A range may pass the greatest value, as ``22-2`` does."""
    _, lowest, highest, names = field

    def number(end: str) -> int:
        return int(end) if end.isdecimal() else names.index(end.lower()) + lowest

    found = set[int]()
    for part in text.split(","):
        first, last, step = _PART.fullmatch(part).group("first", "last", "step")  # type: ignore[union-attr]  # it is valid
        begin = lowest if first == "*" else number(first)
        end = number(last) if last else highest if first == "*" or step else begin
        size = highest - lowest + 1
        reached = range(begin, end + 1 + (size if end < begin else 0), int(step or 1))
        found.update(lowest + (value - lowest) % size for value in reached)
    return found


def _part_problem(part: str, low: int, high: int, names: tuple[str, ...], *, quartz: bool) -> str | None:
    """The problem with a part of a field. In Quartz ranges may wrap around, and no step is longer than its field."""
    match = _PART.fullmatch(part)
    if match is None:
        return "is not understood"
    first, last, step = match.group("first", "last", "step")
    if first == "*" and last is not None:
        return "is a range without a beginning"
    ends: list[int] = []
    for end in (end.lower() for end in (first, last) if end not in {None, "*"}):
        ends.append(low + names.index(end) if end in names else int(end) if end.isdecimal() else -1)
        if not low <= ends[-1] <= high:
            return f"is not between {low} and {high}"
    if step is not None and not 1 <= int(step) <= (high if quartz else int(step)):
        return f"has a step that is not between 1 and {high}"
    return None if quartz or ends == sorted(ends) else "ends before it begins"

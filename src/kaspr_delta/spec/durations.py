"""Durations as in Kaspr, a whole number and a unit: ``30s``, ``5m``, ``1h``, ``1d``; here also ``250ms``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import WithJsonSchema

from kaspr_delta.errors import UsageError
from kaspr_delta.spec.base import Problem, checked

_GRAMMAR = re.compile(r"^0*(\d+)(ms|s|m|h|d)\Z", re.ASCII)
_MOST_DIGITS = 9
# Dates end in the year 9999.
_LONGEST = 365_000 * 86_400_000
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(duration: str) -> int:
    """The length of a duration in milliseconds. Raises ValueError if the text is no duration, or too long a one.

    >>> milliseconds("5m")
    300000
    """
    match = _GRAMMAR.match(duration)
    if match is None:
        raise ValueError(f"'{duration}' is not a duration")
    if len(match[1]) > _MOST_DIGITS:
        raise ValueError(f"'{duration}' has more than {_MOST_DIGITS} digits")
    length = int(match[1]) * _MILLISECONDS[match[2]]
    if length > _LONGEST:
        raise ValueError(f"'{duration}' is longer than a thousand years")
    return length


def interval(option: str, text: str) -> int:
    """The duration given for an option, in milliseconds. Raises UsageError, which names the option."""
    try:
        return milliseconds(text)
    except ValueError:
        raise UsageError(f"{option} {text}: expected a number and a unit, such as 500ms, 5s or 1m") from None


def duration_text(length: int) -> str:
    """A length in milliseconds as a duration.

    >>> duration_text(5_400_000), duration_text(0)
    ('90m', '0s')
    """
    units = [unit for unit, size in _MILLISECONDS.items() if length and length % size == 0]
    return f"{length // _MILLISECONDS[units[-1]]}{units[-1]}" if units else "0s"


def _problems(text: str) -> Iterator[Problem]:
    try:
        milliseconds(text)
    except ValueError as error:
        yield Problem(str(error), "a whole number followed by ms, s, m, h or d, such as '30s' or '5m'")


def _no_time(text: str) -> Iterator[Problem]:
    if milliseconds(text) == 0:
        yield Problem(f"a duration of {text} is no time at all", "it must be longer than zero")


Duration = Annotated[
    str, checked(_problems), WithJsonSchema({"type": "string", "pattern": r"^0*[0-9]{1,9}(ms|s|m|h|d)$"})
]
PositiveDuration = Annotated[
    str,
    checked(_problems),
    checked(_no_time),
    WithJsonSchema({"type": "string", "pattern": r"^0*[1-9][0-9]{0,8}(ms|s|m|h|d)$"}),
]

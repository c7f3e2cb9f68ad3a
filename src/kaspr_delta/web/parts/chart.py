"""Charts of numbers over time, as the positions of their points and axes in an SVG picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

# The frame of the points in templates/chart.html, and the most lines and about as many times at its axes.
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 388, 14, 140
_LINES, _TIMES = 4, 4
_DAY = timedelta(days=1)
_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Point:
    """A number at a moment, with the text that is shown when it is pointed at."""

    at: datetime
    value: float
    text: str
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with its position."""

    x: float
    y: float
    point: Point


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: its points from left to right, and the positions and texts at its axes."""

    title: str
    marks: tuple[Mark, ...]
    rows: tuple[tuple[float, str], ...]
    times: tuple[tuple[float, str], ...]


def chart(title: str, points: Sequence[Point]) -> Chart:
    """The chart of points, of which there is at least one, over the time between the first and the last."""
    start, end = min(one.at for one in points), max(one.at for one in points)
    length = (end - start) or timedelta(seconds=1)
    step = _step(max(one.value for one in points) / _LINES)
    top = step * max(1, math.ceil(max(one.value for one in points) / step))

    def x_of(moment: datetime) -> float:
        return round(_LEFT + (moment - start) / length * (_RIGHT - _LEFT), 1)

    def y_of(value: float) -> float:
        return round(_BOTTOM - value / top * (_BOTTOM - _TOP), 1)

    marks = tuple(Mark(x_of(one.at), y_of(one.value), one) for one in sorted(points, key=lambda one: one.at))
    rows = tuple((y_of(number * step), _number(number * step)) for number in range(round(top / step) + 1))
    moments = [start + length * number / (_TIMES - 1) for number in range(_TIMES)] if end > start else [start]
    form = "%H:%M:%S" if length < timedelta(minutes=10) else "%H:%M" if length < _DAY else "%d %b %H:%M"
    return Chart(title, marks, rows, tuple((x_of(moment), f"{moment:{form}}") for moment in moments))


def _step(least: float) -> float:
    """The distance of lines: 1, 2 or 5 times a power of ten, and not less than this."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * 0.999)


def _number(value: float) -> str:
    """A number at an axis.

    >>> _number(0.25), _number(2_000.0), _number(3e6)
    ('0.25', '2,000', '3M')
    """
    if value >= _MILLION:
        return f"{value / _MILLION:g}M"
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"

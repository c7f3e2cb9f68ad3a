"""The batches of a resource, which are the runs of a task, as charts over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kaspr_delta.web.parts.chart import Chart, Point, chart


def charts_of(batches: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """The charts of batches: their seconds, and their rows in and out. Batches with dead letters stand out."""
    found = []
    for title, column in (("seconds", "seconds"), ("rows in", "rows_in"), ("rows out", "rows_out")):
        points = [Point(one["at"], one[column] or 0, _text(one), bool(one["dead_letters"])) for one in batches]
        if any(point.value for point in points):
            found.append(chart(title, points))
    return found


def lag_chart(lags: Sequence[tuple[datetime, int]]) -> list[Chart]:
    """The chart of a resource's lag over time; none for no lags."""
    points = [Point(at, lag, f"{at:%Y-%m-%d %H:%M:%S}: lag {lag:,}") for at, lag in lags]
    return [chart("lag, as this server has seen it", points)] if points else []


def _text(batch: Mapping[str, Any]) -> str:
    letters = f", {batch['dead_letters']} dead letters" if batch["dead_letters"] else ""
    return (
        f"{batch['at']:%Y-%m-%d %H:%M:%S}: {batch['seconds']:.1f} s, {batch['rows_in']:,} rows in,"
        f" {batch['rows_out']:,} out{letters}"
    )

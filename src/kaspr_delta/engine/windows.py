"""Windowed tables over time: rows appear when their window closes, and are deleted when it expires."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import narwhals as nw

from kaspr_delta.engine.batch.resource import Found, kinds_of
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.storage.tables import Tables

# The kinds of log rows that report windows which a stream has passed.
_PASSED = ("close", "expire")


def passed_windows(table: str, clock: Clock) -> Iterator[Effect]:
    """Effects for the windows that the streams passed in this batch: windows close, and later their rows expire.

    These are the windows that end after ``window_start`` (None: all), up to and with ``timestamp``.
    """
    closing = [("close", clock.window.closed)] if clock.window.emit == "close" else []
    for kind, end in (*closing, ("expire", clock.window.expired)):
        for stream, now in clock.times.items():
            upto, after = end(now), end(clock.before[stream]) if stream in clock.before else None
            if upto is not None and after != upto:
                start = None if after is None else after * 1_000
                yield Effect(kind, table, None, None, timestamp=upto * 1_000, window_start=start, stream=stream)


def pass_windows(delta: Tables, rows: Rows, found: Found, table_of: Callable[[Mapping[str, Any]], TablePlan]) -> None:
    """Show the windows that closed, then remove those that expired (see ``passed_windows``).

    ``rows`` are those of the log: columns kind, stream, window_start, timestamp. ``found`` has their kinds.
    """
    if not kinds_of(found).intersection(_PASSED):
        return
    passed = rows.filter(nw.col("kind").is_in(_PASSED)).collect().to_pylist()
    for row in sorted(passed, key=lambda row: str(row["kind"])):
        table, stream, upto = table_of(row), row["stream"], row["timestamp"]
        if row["kind"] == "close":
            KeyedTable(delta, table).show(rows.spark, table.state, stream, row["window_start"], upto)
            continue
        for name in table.delta_tables:
            KeyedTable(delta, replace(table, delta_name=name)).expire(rows.spark, stream, upto)

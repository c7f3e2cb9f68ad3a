"""Stream time: the clock of tables with windows.

Stream time is the greatest time seen in one partition of the input, as in Kafka Streams: a partition that is behind
loses nothing because another one is ahead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from kaspr_delta.engine.streams.event import InputRecord
from kaspr_delta.functions.call import call
from kaspr_delta.functions.snippet import in_empty_scope
from kaspr_delta.plan.definition.window import WindowPlan
from kaspr_delta.spec.durations import milliseconds

# The stream of tables whose windows follow the wall clock.
NOW = "now"
_SECONDS_LATEST = 253_402_300_800  # the year 10000


class Clock:
    """The times of one table's streams during a batch, in milliseconds.

    ``times`` has them after the last event that succeeded, ``before`` at the beginning of the batch. Of the current
    event, ``stream`` is its stream, ``at`` the time by which it is in windows, ``event`` its own time.
    """

    def __init__(
        self, window: WindowPlan, agent: str, before: Mapping[str, int], now: Callable[[], float] = time.time
    ) -> None:
        self.window, self.before = window, before
        self.times = dict(before)
        self.stream, self.at, self.event = NOW, 0, 0
        self._agent, self._now = agent, now
        self._pending: dict[str, int] = {}
        self._tick()

    def arrive(self, events: Sequence[tuple[InputRecord, Any]]) -> None:
        """Begin an event: records with values; the newest one counts. Raises the errors of the author's selector."""
        self._tick()
        self.at = self.event = self.current()
        newest: int | None = None
        for record, value in events:
            moment = self._moment(record)
            at = self.time_of(record, value)
            stream = NOW if self.window.relative_to == "now" else f"{self._agent}:{record.source}/{record.partition}"
            self._pending[stream] = max(at, self._pending.get(stream, self.times.get(stream, at)))
            if newest is None or at >= newest:
                newest, self.at, self.event, self.stream = at, at, moment, stream

    def time_of(self, record: InputRecord, value: Any) -> int:
        """The time by which an event is in windows. Raises the errors of the author's selector."""
        if self.window.relative_to == "now":
            return self.times[NOW]  # setting back the clock makes no event late
        if self.window.selector is None:
            return self._moment(record)
        return instant(call(in_empty_scope(self.window.selector), value, {}))

    def is_open(self, start: int) -> bool:
        return self.window.is_open(start, self._pending.get(self.stream, self.at))

    def keep(self) -> None:
        """Keep the time of the current event, which succeeded."""
        self.times.update(self._pending)
        self._pending.clear()

    def drop(self) -> None:
        """Forget the time of the current event, which failed."""
        self._pending.clear()

    def current(self) -> int:
        return _milliseconds(self._now())

    def _tick(self) -> None:
        if self.window.relative_to == "now":
            self.times[NOW] = max(self.current(), self.times.get(NOW, 0))

    def _moment(self, record: InputRecord) -> int:
        """The record's own time, or, if it has none, the time at which it is processed."""
        return self.current() if record.timestamp is None else record.timestamp // 1_000


def instant(selected: Any) -> int:
    """Convert a relativeToSelector's result to milliseconds: Unix seconds, a datetime, ISO text. Raises ValueError.

    >>> instant(1.5), instant("1970-01-01T00:00:02Z")
    (1500, 2000)
    """
    match selected:
        case str():
            moment = datetime.fromisoformat(selected.replace("Z", "+00:00"))
            return _milliseconds(moment.timestamp())
        case datetime():
            return _milliseconds(selected.timestamp())
        case int() | float() if not isinstance(selected, bool) and abs(selected) < _SECONDS_LATEST:
            return _milliseconds(selected)
    msg = f"relativeToSelector must return a time (seconds since 1970, a datetime or ISO text), not {selected!r}"
    raise ValueError(msg)


def length(duration: float | timedelta | str) -> int:
    """Convert a length of time to milliseconds: seconds, a timedelta, or text such as ``"5m"``."""
    if isinstance(duration, str):
        return milliseconds(duration)
    return _milliseconds(duration.total_seconds() if isinstance(duration, timedelta) else duration)


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1_000)

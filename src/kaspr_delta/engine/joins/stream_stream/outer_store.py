"""The pending rows of a stream-stream join: Kafka Streams' outer-join store, scanned as it does."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kaspr_delta.engine.joins.stream_stream.buffered import Buffered, JoinWindow, Side, time_of


@dataclass
class OuterStore:
    """``unread`` are ascending timestamps of pending rows that are not here, one for each, and that stay for now."""

    window: JoinWindow
    unread: Mapping[Side, Sequence[int]]
    _rows: dict[Side, list[Buffered]] = field(default_factory=lambda: {"right": [], "left": []}, init=False)

    def ids(self) -> set[str]:
        """The ids of all rows that are here."""
        return {row.id for rows in self._rows.values() for row in rows}

    def put(self, row: Buffered) -> None:
        """A row becomes pending."""
        insort(self._rows[row.side], row, key=_slot)

    def discard(self, row: Buffered) -> None:
        """A row was matched; it may have come out before."""
        rows = self._rows[row.side]
        at = bisect_left(rows, _slot(row), key=_slot)
        if at < len(rows) and rows[at].id == row.id:
            del rows[at]

    def scan(self, time: int) -> tuple[list[Buffered], int | None]:
        """Let out the rows whose time is over, in their order; and the timestamp of the last row that the scan read."""
        over: list[Buffered] = []
        for side, rows in self._rows.items():
            count = bisect_left(rows, self.window.closed(side, time), key=time_of)
            over += rows[:count]
            del rows[:count]
        over.sort(key=lambda row: (row.timestamp, row.side == "left", row.key, row.arrived))
        return over, self._end(over)

    def _end(self, over: Sequence[Buffered]) -> int | None:
        """Where Kafka Streams ends: it reads until it has seen a row that stays on both sides, and one more."""
        firsts = [(times[0], side == "left") for side in self._rows if (times := self._first(side, 1))]
        if len(firsts) < len(self._rows):
            lasts = [time for side in self._rows for time in self._last(side)]
            return max([*lasts, *map(time_of, over[-1:])], default=None)
        time, is_left = max(firsts)
        # The right rows of a moment come before the left ones.
        rest = self._first("left", 2, since=time) + self._first("right", 2, since=time + is_left)
        return sorted(rest)[:2][-1]

    def _first(self, side: Side, count: int, since: float = float("-inf")) -> list[int]:
        """The first timestamps of a side's rows, here or not."""
        rows, unread = self._rows[side], self.unread.get(side, ())
        here, away = bisect_left(rows, since, key=time_of), bisect_left(unread, since)
        return sorted([*map(time_of, rows[here : here + count]), *unread[away : away + count]])[:count]

    def _last(self, side: Side) -> list[int]:
        return [*map(time_of, self._rows[side][-1:]), *self.unread.get(side, ())[-1:]]


def _slot(row: Buffered) -> tuple[int, str, int]:
    return row.timestamp, row.key, row.arrived

"""The buffer of a stream-stream join: its rows, how long they stay, and the store of the pending ones."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

Side = Literal["left", "right"]

time_of = attrgetter("timestamp")
"""The timestamp of a row, to sort and search by."""
_slot = attrgetter("timestamp", "key", "arrived")


@dataclass(frozen=True, slots=True)
class JoinWindow:
    """A window in milliseconds: right timestamps match from ``before`` earlier than the left one to ``after`` later."""

    before: int
    after: int
    grace: int

    def reach(self, side: Side) -> tuple[int, int]:
        """How far before and after a record of this side its matches lie."""
        return (self.before, self.after) if side == "left" else (self.after, self.before)

    def closed(self, side: Side, time: int) -> int:
        """The timestamp below which pending rows of this side come out at this stream time."""
        return time - self.reach(side)[1] - self.grace

    def forgotten(self, time: int) -> int:
        """The timestamp below which rows match nothing any more at this time of their own side: they left its store."""
        return time - self.before - self.after - self.grace + 1


@dataclass(frozen=True, slots=True)
class Buffered:
    """A row of the buffer; ``id`` is the record's, ``arrived`` orders rows of one side, key and timestamp.

    Records can match it until it is forgotten. A ``pending`` row comes out unmatched unless it is matched.
    """

    side: Side
    id: str
    key: str
    value: str
    timestamp: int
    pending: bool
    arrived: int


@dataclass
class OuterStore:
    """The pending rows during a batch: Kafka Streams' outer-join store, scanned in the same way.

    ``unread``: ascending timestamps of the pending rows that are not loaded, one per row. These rows stay for now.
    """

    window: JoinWindow
    unread: Mapping[Side, Sequence[int]]
    _rows: dict[Side, list[Buffered]] = field(default_factory=lambda: {"right": [], "left": []}, init=False)

    def ids(self) -> set[str]:
        """The ids of all loaded rows."""
        return {row.id for rows in self._rows.values() for row in rows}

    def put(self, row: Buffered) -> None:
        """Add a row that becomes pending."""
        insort(self._rows[row.side], row, key=_slot)

    def discard(self, row: Buffered) -> None:
        """Remove a row that was matched, unless it came out before."""
        rows = self._rows[row.side]
        at = bisect_left(rows, _slot(row), key=_slot)
        if at < len(rows) and rows[at].id == row.id:
            del rows[at]

    def scan(self, time: int) -> tuple[list[Buffered], int | None]:
        """Remove the rows whose time is over.

        Return them in their order, and the timestamp of the last row that the scan read.
        """
        over: list[Buffered] = []
        for side, rows in self._rows.items():
            count = bisect_left(rows, self.window.closed(side, time), key=time_of)
            over += rows[:count]
            del rows[:count]
        over.sort(key=lambda row: (row.timestamp, row.side == "left", row.key, row.arrived))
        return over, self._end(over)

    def _end(self, over: Sequence[Buffered]) -> int | None:
        """Where Kafka Streams ends the scan: when it has read a row that stays on both sides, and one more row."""
        firsts = [(times[0], side == "left") for side in self._rows if (times := self._first(side, 1))]
        if len(firsts) < len(self._rows):
            lasts = [time for side in self._rows for time in self._last(side)]
            return max([*lasts, *map(time_of, over[-1:])], default=None)
        time, is_left = max(firsts)
        # At the same timestamp right rows come before left rows.
        rest = self._first("left", 2, since=time) + self._first("right", 2, since=time + is_left)
        return sorted(rest)[:2][-1]

    def _first(self, side: Side, count: int, since: float = float("-inf")) -> list[int]:
        """The first timestamps of a side's rows from ``since`` on, loaded or not."""
        rows, unread = self._rows[side], self.unread.get(side, ())
        here, away = bisect_left(rows, since, key=time_of), bisect_left(unread, since)
        return sorted([*map(time_of, rows[here : here + count]), *unread[away : away + count]])[:count]

    def _last(self, side: Side) -> list[int]:
        return [*map(time_of, self._rows[side][-1:]), *self.unread.get(side, ())[-1:]]

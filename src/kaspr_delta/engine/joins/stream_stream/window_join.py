"""A windowed stream-stream join, one partition, record by record. Pure: nothing is read or written here.

Its semantics are those of KStreamKStreamJoin in Kafka Streams 4.1, as recorded in ``tests/oracle``. A batch must be
given these rows of the buffer, as it was before the batch:

* ``rows``: all rows that its records can match (other side, same key, timestamp from ``window.reach``), and all pending
  rows that can come out by the greatest stream time of the batch (timestamp less than ``window.closed``). More rows do
  no harm.
* ``unread``: the timestamps of all other pending rows. The end of a scan decides when Kafka Streams scans next, so rows
  that stay count as well. For a left join the greatest timestamp is enough. For an outer join with pending rows on both
  sides: all timestamps up to the second one (ordered by timestamp, right before left) that is not before the later of
  the two sides' first ones.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from operator import attrgetter
from typing import Literal, NamedTuple

from kaspr_delta.plan.definition.joins import JoinType

Side = Literal["left", "right"]

_time_of = attrgetter("timestamp")
_slot = attrgetter("timestamp", "key", "arrived")
# The order in which Kafka Streams fetches rows from a side's window store.
_row_order = attrgetter("timestamp", "arrived")


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
            count = bisect_left(rows, self.window.closed(side, time), key=_time_of)
            over += rows[:count]
            del rows[:count]
        over.sort(key=lambda row: (row.timestamp, row.side == "left", row.key, row.arrived))
        return over, self._end(over)

    def _end(self, over: Sequence[Buffered]) -> int | None:
        """Where Kafka Streams ends the scan: when it has read a row that stays on both sides, and one more row."""
        firsts = [(times[0], side == "left") for side in self._rows if (times := self._first(side, 1))]
        if len(firsts) < len(self._rows):
            lasts = [time for side in self._rows for time in self._last(side)]
            return max([*lasts, *map(_time_of, over[-1:])], default=None)
        time, is_left = max(firsts)
        # At the same timestamp right rows come before left rows.
        rest = self._first("left", 2, since=time) + self._first("right", 2, since=time + is_left)
        return sorted(rest)[:2][-1]

    def _first(self, side: Side, count: int, since: float = float("-inf")) -> list[int]:
        """The first timestamps of a side's rows from ``since`` on, loaded or not."""
        rows, unread = self._rows[side], self.unread.get(side, ())
        here, away = bisect_left(rows, since, key=_time_of), bisect_left(unread, since)
        return sorted([*map(_time_of, rows[here : here + count]), *unread[away : away + count]])[:count]

    def _last(self, side: Side) -> list[int]:
        return [*map(_time_of, self._rows[side][-1:]), *self.unread.get(side, ())[-1:]]


class StreamRecord(NamedTuple):
    """A record that arrives. ``id`` is unique for ever; keys are text that sorts like their bytes.

    ``offset`` orders the records of one side and partition.
    """

    side: Side
    id: str
    key: str | None
    value: str | None
    timestamp: int
    partition: int = 0
    offset: int = 0


class Joined(NamedTuple):
    """A result. It is unmatched if a side is None."""

    key: str | None
    left: str | None
    right: str | None
    timestamp: int


class Times(NamedTuple):
    """The state of a join besides its buffer: plain numbers, times in milliseconds.

    ``stream``: the greatest timestamp of all records. ``left``, ``right``: the greatest timestamp of a side's records
    with key and value. ``scan``: the timestamp at which the last scan for unmatched rows ended, or that of an older
    pending row that came since (None: no row is pending). ``arrived`` counts rows.
    """

    stream: int | None = None
    left: int | None = None
    right: int | None = None
    scan: int | None = None
    arrived: int = 0


@dataclass
class WindowJoin:
    """The join during a batch. The module describes ``rows`` and ``unread``; ``unread`` is ascending."""

    type: JoinType
    window: JoinWindow
    times: Times = field(default_factory=Times)
    rows: InitVar[Iterable[Buffered]] = ()
    unread: InitVar[Mapping[Side, Sequence[int]] | None] = None
    _before: dict[str, Buffered] = field(init=False)
    _taken: dict[str, Buffered] = field(default_factory=dict, init=False)
    _stored: dict[tuple[Side, str], list[Buffered]] = field(default_factory=dict, init=False)
    _pending: OuterStore = field(init=False)

    def __post_init__(self, rows: Iterable[Buffered], unread: Mapping[Side, Sequence[int]] | None) -> None:
        self._pending = OuterStore(self.window, unread or {})
        self._before = {row.id: row for row in rows}
        for row in self._before.values():
            self._take(row)

    def process(self, record: StreamRecord) -> list[Joined]:
        """Take a record, and return the results that it causes, in their order."""
        side, key, value, timestamp = record.side, record.key, record.value, record.timestamp
        now = _latest(self.times.stream, timestamp)
        self.times = self.times._replace(stream=now)
        if key is None and value is not None and self._may_be_unmatched(side):
            return [_joined(side, key, value, None, timestamp)]
        if key is None or value is None:
            return []
        # Only a record at stream time lets unmatched rows out, before it is joined itself.
        results = self._unmatched(side, now) if timestamp == now else []
        matches = self._matches(side, key, timestamp)
        for match in matches:
            self._pending.discard(match)
            results.append(_joined(side, key, value, match.value, max(timestamp, match.timestamp)))
        pending = not matches and self._may_be_unmatched(side)
        if pending and timestamp + self.window.reach(side)[1] < now:
            # Its window is over already; Kafka Streams does not wait for the grace period here.
            results.append(_joined(side, key, value, None, timestamp))
            pending = False
        self._arrive(Buffered(side, record.id, key, value, timestamp, pending, self.times.arrived))
        return results

    def expired(self, side: Side) -> int | None:
        """The timestamp below which rows of this side that are not pending leave, read or not; None: no row leaves.

        These rows match nothing, so it does not matter how late they are deleted.
        """
        time: int | None = getattr(self.times, side)
        return None if time is None else self.window.forgotten(time)

    def changes(self) -> tuple[list[Buffered], list[Buffered], list[str]]:
        """The changes of the buffer: new rows, rows that are no longer pending, and ids of rows that left."""
        pending = self._pending.ids()
        rows = [
            replace(row, pending=False) if row.pending and row.id not in pending else row
            for row in self._taken.values()
        ]
        stay = {row.id: row for row in rows if row.pending or self._is_stored(row)}
        added = [row for row in stay.values() if row.id not in self._before]
        changed = [row for row in stay.values() if row != self._before.get(row.id, row)]
        return added, changed, [row_id for row_id in self._before if row_id not in stay]

    def _may_be_unmatched(self, side: Side) -> bool:
        return self.type == "outer" or (self.type == "left" and side == "left")

    def _unmatched(self, side: Side, now: int) -> list[Joined]:
        """The results of pending rows whose time is over. The bound of this side decides whether a scan runs at all."""
        if self.times.scan is None or self.times.scan >= self.window.closed(side, now):
            return []
        over, end = self._pending.scan(now)
        self.times = self.times._replace(scan=end)
        return [_joined(row.side, row.key, row.value, None, row.timestamp) for row in over]

    def _matches(self, side: Side, key: str, timestamp: int) -> list[Buffered]:
        other: Side = "right" if side == "left" else "left"
        before, after = self.window.reach(side)
        since = _latest(self.expired(other), timestamp - before)
        rows = self._stored.get((other, key), [])
        return rows[bisect_left(rows, since, key=_time_of) : bisect_right(rows, timestamp + after, key=_time_of)]

    def _arrive(self, row: Buffered) -> None:
        newest = _latest(getattr(self.times, row.side), row.timestamp)
        times = self.times._replace(arrived=row.arrived + 1, **{row.side: newest})
        if row.pending:
            times = times._replace(scan=row.timestamp if times.scan is None else min(times.scan, row.timestamp))
        self.times = times
        self._take(row)

    def _take(self, row: Buffered) -> None:
        self._taken[row.id] = row
        if row.pending:
            self._pending.put(row)
        # A late row may be pending although nothing can match it.
        if self._is_stored(row):
            insort(self._stored.setdefault((row.side, row.key), []), row, key=_row_order)

    def _is_stored(self, row: Buffered) -> bool:
        since = self.expired(row.side)
        return since is None or row.timestamp >= since


def _latest(time: int | None, other: int) -> int:
    return other if time is None else max(time, other)


def _joined(side: Side, key: str | None, value: str, other: str | None, timestamp: int) -> Joined:
    left, right = (value, other) if side == "left" else (other, value)
    return Joined(key, left, right, timestamp)

"""The rows that a stream-stream join keeps, and how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Side = Literal["left", "right"]


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


class Changes(NamedTuple):
    """The changes of the buffer: new rows, rows that are no longer pending, and ids of rows that left."""

    added: list[Buffered]
    changed: list[Buffered]
    removed: list[str]


def time_of(row: Buffered) -> int:
    """The timestamp, to sort and search by."""
    return row.timestamp

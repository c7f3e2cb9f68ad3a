"""Tables during a batch: what was read, what events before wrote, what the current event writes; nothing committed yet.

A *place* is where a row is: the text of its key, or a Cell in a table with windows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kaspr_delta.plan.definition import TablePlan
from kaspr_delta.serde.table_text import TableText


class Cell(NamedTuple):
    """A place in a table with windows: a key's text, and the beginning of a window in milliseconds."""

    key: str
    start: int


Place = TypeVar("Place", str, Cell)


class TableReader(Protocol[Place]):
    """Reads a table as it was before the batch. Keys and values are table text."""

    def fetch(self, places: Collection[Place]) -> dict[Place, str]:
        """The values of those of the places that are filled."""
        ...

    def scan(self, start: int | None) -> dict[Place, str]:
        """All rows, or those of the window that begins there."""
        ...


class Written(NamedTuple):
    """What became of a place: its value (None: deleted), the time of the event, and the stream that brought it."""

    value: str | None
    timestamp: datetime | None
    stream: str | None = None


# No value, not even a deletion: the current event has not written the place.
_UNTOUCHED: Any = object()


@dataclass
class TableState(Generic[Place]):
    """One table during a batch.

    ``likely`` names places worth reading together with the first that is missed; one missed later is read on the spot.
    """

    plan: TablePlan
    reader: TableReader[Place]
    likely: Callable[[], Collection[Place]] = tuple
    written: dict[Place, Written] = field(default_factory=dict)
    # How often functions did what, by the names that Kaspr's metrics have for it.
    counts: Counter[str] = field(default_factory=Counter)
    pending: dict[Place, str | None] = field(default_factory=dict)
    _read: dict[Place, str | None] = field(default_factory=dict)
    _scanned: set[int | None] = field(default_factory=set)

    def put(self, place: Place, value: str | None) -> None:
        """The current event writes a place; None deletes."""
        self.counts["keys_deleted" if value is None else "keys_updated"] += 1
        self.pending[place] = value

    def get(self, place: Place) -> str | None:
        """The current value of a place; None when there is none."""
        value: str | None = self.pending.get(place, _UNTOUCHED)
        if value is not _UNTOUCHED:
            return value
        written = self.written.get(place)
        if written is not None:
            return written.value
        if place not in self._read and _start(place) not in self._scanned:
            self._fetch(place)
        return self._read.get(place)

    def all(self, start: int | None = None) -> dict[Place, str]:
        """All rows as they are now; of a table with windows those of the window that begins at ``start``."""
        if start not in self._scanned:
            # Sorted, so that a batch that runs again sees the same order. A key that is not canonical is no key.
            is_key = TableText(self.plan.serializers).is_key
            found = sorted(self.reader.scan(start).items())
            elsewhere = {place: value for place, value in self._read.items() if _start(place) != start}
            self._read = {**elsewhere, **{place: value for place, value in found if is_key(_key(place))}}
            self._scanned.add(start)
        rows = {**self._read, **{place: written.value for place, written in self.written.items()}, **self.pending}
        return {place: value for place, value in rows.items() if value is not None and _start(place) == start}

    def keep(self, timestamp: datetime | None, stream: str | None = None) -> None:
        """The current event succeeded: its writes stand."""
        for place, value in self.pending.items():
            self.written[place] = Written(value, timestamp, stream)
        self.pending.clear()

    def drop(self) -> None:
        """The current event failed: its writes never were."""
        self.pending.clear()

    def _fetch(self, place: Place) -> None:
        places = set(self.likely())
        places.add(place)
        unknown = [wanted for wanted in places if wanted not in self._read]
        found = self.reader.fetch(unknown)
        self._read.update({wanted: found.get(wanted) for wanted in unknown})


AnyState = TableState[str] | TableState[Cell]


def _start(place: str | Cell) -> int | None:
    return place.start if isinstance(place, Cell) else None


def _key(place: str | Cell) -> str:
    return place.key if isinstance(place, Cell) else place

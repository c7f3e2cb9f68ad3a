"""Tables during a batch: rows read, writes of earlier events, writes of the current event; nothing is committed yet.

A *place* identifies a row: the text of its key, or a Cell in a table with windows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.serde.typed_text import text_of


class Cell(NamedTuple):
    """A place in a table with windows: a key's text, and the start of a window in milliseconds."""

    key: str
    start: int


Place = TypeVar("Place", str, Cell)


class TableReader(Protocol[Place]):
    """Reads a table as it was before the batch. Keys and values are table text."""

    def fetch(self, places: Collection[Place]) -> dict[Place, str]:
        """The values of the places that have a row."""
        ...

    def scan(self, start: int | None) -> dict[Place, str]:
        """All rows; in a table with windows, those of the window that begins at ``start``."""
        ...


class Written(NamedTuple):
    """The last write of a place: its value (None: deleted), the time of the event, and the stream of the event.

    The time is in microseconds since 1970.
    """

    value: str | None
    timestamp: int | None
    stream: str | None = None


# The place was not read yet. (None means that it was read and has no row.)
_UNKNOWN: Any = object()


@dataclass
class TableState(Generic[Place]):
    """One table during a batch.

    ``likely`` returns places worth reading together with a place that was not read yet. The counters are for metrics:
    keys that functions read, set and deleted, and writes too late for a window.
    """

    plan: TablePlan
    reader: TableReader[Place]
    likely: Callable[[], Collection[Place]] = tuple
    retrieved: int = 0
    updated: int = 0
    deleted: int = 0
    late: int = 0
    # Values as the current event sees them; None: no row.
    _known: dict[Place, str | None] = field(default_factory=dict)
    # Values that the current event has overwritten.
    _replaced: dict[Place, str | None] = field(default_factory=dict)
    # Time and stream of the last write of each place by earlier events.
    _written: dict[Place, tuple[int | None, str | None]] = field(default_factory=dict)
    _scanned: set[int | None] = field(default_factory=set)

    @property
    def counts(self) -> dict[str, int]:
        """How often functions read, set and deleted keys or wrote too late, by the names in Kaspr's metrics."""
        counted = {
            "keys_retrieved": self.retrieved,
            "keys_updated": self.updated,
            "keys_deleted": self.deleted,
            "late_dropped": self.late,
        }
        return {name: times for name, times in counted.items() if times}

    @property
    def written(self) -> dict[Place, Written]:
        """The last write of each place, in the order of the first writes. To be used after the current event ended."""
        known = self._known
        return {place: Written(known[place], *by) for place, by in self._written.items()}

    def put(self, place: Place, value: str | None) -> None:
        """Write a place for the current event; None deletes."""
        if value is None:
            self.deleted += 1
        else:
            self.updated += 1
        if place not in self._replaced:
            self._replaced[place] = self._known.get(place, _UNKNOWN)
        self._known[place] = value

    def get(self, place: Place) -> str | None:
        """The current value of a place; None if it has no row."""
        value: str | None = self._known.get(place, _UNKNOWN)
        if value is not _UNKNOWN:
            return value
        if _start(place) in self._scanned:
            return None
        self._fetch(place)
        return self._known[place]

    def all(self, start: int | None = None) -> dict[Place, str]:
        """All current rows; in a table with windows, those of the window that begins at ``start``."""
        if start not in self._scanned:
            # Sorted, so that a repeated batch sees the same order. Rows whose key text is not canonical are left out.
            is_key = text_of(self.plan).is_key
            found = sorted(self.reader.scan(start).items())
            rows = {place: value for place, value in found if is_key(_key(place))}
            for place, value in self._replaced.items():
                if value is _UNKNOWN and _start(place) == start:
                    self._replaced[place] = rows.get(place)
            self._known = {**rows, **self._known}
            self._scanned.add(start)
        return {place: value for place, value in self._known.items() if value is not None and _start(place) == start}

    def keep(self, timestamp: int | None, stream: str | None = None) -> None:
        """The current event succeeded: keep its writes."""
        if self._replaced:
            by = timestamp, stream
            for place in self._replaced:
                self._written[place] = by
            self._replaced.clear()

    def drop(self) -> None:
        """The current event failed: undo its writes."""
        for place, value in self._replaced.items():
            if value is _UNKNOWN:
                del self._known[place]
            else:
                self._known[place] = value
        self._replaced.clear()

    def _fetch(self, place: Place) -> None:
        places = set(self.likely())
        places.add(place)
        unknown = [wanted for wanted in places if wanted not in self._known]
        found = self.reader.fetch(unknown)
        self._known.update({wanted: found.get(wanted) for wanted in unknown})


AnyState = TableState[str] | TableState[Cell]


def _start(place: str | Cell) -> int | None:
    return place.start if isinstance(place, Cell) else None


def _key(place: str | Cell) -> str:
    return place.key if isinstance(place, Cell) else place

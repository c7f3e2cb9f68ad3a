"""Tables during a batch: what was read, what events before wrote, what the current event writes; nothing committed yet.

A *place* is where a row is: the text of its key, or a Cell in a table with windows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.serde.typed_text import text_of


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
    """What became of a place: its value (None: deleted), the time of the event, and the stream that brought it.

    The time is in microseconds since 1970.
    """

    value: str | None
    timestamp: int | None
    stream: str | None = None


# No value, not even None for "nothing there": the place was not read yet.
_UNKNOWN: Any = object()


@dataclass
class TableState(Generic[Place]):
    """One table during a batch.

    ``likely`` names places worth reading together with the first that is missed; one missed later is read on the spot.
    What functions did is counted: keys they asked for, set and deleted, and writes that came too late for a window.
    """

    plan: TablePlan
    reader: TableReader[Place]
    likely: Callable[[], Collection[Place]] = tuple
    retrieved: int = 0
    updated: int = 0
    deleted: int = 0
    late: int = 0
    # Places as the current event sees them; None where nothing is.
    _known: dict[Place, str | None] = field(default_factory=dict)
    # What the current event has overwritten.
    _replaced: dict[Place, str | None] = field(default_factory=dict)
    # When, and by which stream, events before wrote a place.
    _written: dict[Place, tuple[int | None, str | None]] = field(default_factory=dict)
    _scanned: set[int | None] = field(default_factory=set)

    @property
    def counts(self) -> dict[str, int]:
        """How often functions did what, by the names that Kaspr's metrics have for it."""
        counted = {
            "keys_retrieved": self.retrieved,
            "keys_updated": self.updated,
            "keys_deleted": self.deleted,
            "late_dropped": self.late,
        }
        return {name: times for name, times in counted.items() if times}

    @property
    def written(self) -> dict[Place, Written]:
        """What events have written, the last of each place, in the order of the first. The current event has ended."""
        known = self._known
        return {place: Written(known[place], *by) for place, by in self._written.items()}

    def put(self, place: Place, value: str | None) -> None:
        """The current event writes a place; None deletes."""
        if value is None:
            self.deleted += 1
        else:
            self.updated += 1
        if place not in self._replaced:
            self._replaced[place] = self._known.get(place, _UNKNOWN)
        self._known[place] = value

    def get(self, place: Place) -> str | None:
        """The current value of a place; None when there is none."""
        value: str | None = self._known.get(place, _UNKNOWN)
        if value is not _UNKNOWN:
            return value
        if _start(place) in self._scanned:
            return None
        self._fetch(place)
        return self._known[place]

    def all(self, start: int | None = None) -> dict[Place, str]:
        """All rows as they are now; of a table with windows those of the window that begins at ``start``."""
        if start not in self._scanned:
            # Sorted, so that a batch that runs again sees the same order. A key that is not canonical is no key.
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
        """The current event succeeded: its writes stand."""
        if self._replaced:
            by = timestamp, stream
            for place in self._replaced:
                self._written[place] = by
            self._replaced.clear()

    def drop(self) -> None:
        """The current event failed: its writes never were."""
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

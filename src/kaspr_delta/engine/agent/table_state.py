"""Tables during a batch: rows read, writes of earlier events, writes of the current event; nothing is committed yet.

A *row key* identifies a row: the text of its key, or a Cell in a table with windows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.serde.typed_text import text_of


class Cell(NamedTuple):
    """The row key in a table with windows: a key's text, and the start of a window in milliseconds."""

    key: str
    start: int


RowKey: TypeAlias = str | Cell


class TableReader(Protocol):
    """Reads a table as it was before the batch. Keys and values are table text."""

    def fetch(self, row_keys: Collection[RowKey]) -> dict[RowKey, str]:
        """The values of the row keys that have a row."""

    def scan(self, start: int | None) -> dict[RowKey, str]:
        """All rows; in a table with windows, those of the window that begins at ``start``."""


class Written(NamedTuple):
    """The last write of a row key: its value (None: deleted), the time of the event, and the stream of the event.

    The time is in microseconds since 1970.
    """

    value: str | None
    timestamp: int | None
    stream: str | None = None


# The row key was not read yet. (None means that it was read and has no row.)
_UNKNOWN: Any = object()


@dataclass
class TableState:
    """One table during a batch.

    ``clock`` has the stream times of a table with windows; it is kept and dropped together with the writes.
    ``likely`` returns row keys worth reading together with the next one that was not read yet; it is called once.
    ``counts`` are by the names in Kaspr's metrics: keys that functions read, set and deleted, and late writes.
    """

    plan: TablePlan
    reader: TableReader
    clock: Clock | None = None
    likely: Callable[[], Collection[RowKey]] = tuple
    counts: Counter[str] = field(default_factory=Counter)
    # Values as the current event sees them; None: no row.
    _known: dict[RowKey, str | None] = field(default_factory=dict)
    # Values that the current event has overwritten.
    _replaced: dict[RowKey, str | None] = field(default_factory=dict)
    # Time and stream of the last write of each row key by earlier events.
    _written: dict[RowKey, tuple[int | None, str | None]] = field(default_factory=dict)
    _scanned: set[int | None] = field(default_factory=set)

    @property
    def written(self) -> dict[RowKey, Written]:
        """The last write by row key, in the order of the first writes. To be used after the current event ended."""
        known = self._known
        return {row_key: Written(known[row_key], *by) for row_key, by in self._written.items()}

    def put(self, row_key: RowKey, value: str | None) -> None:
        """Write a row for the current event; None deletes."""
        self.counts["keys_deleted" if value is None else "keys_updated"] += 1
        if row_key not in self._replaced:
            self._replaced[row_key] = self._known.get(row_key, _UNKNOWN)
        self._known[row_key] = value

    def get(self, row_key: RowKey) -> str | None:
        """The current value of a row; None if it has no row."""
        value: str | None = self._known.get(row_key, _UNKNOWN)
        if value is not _UNKNOWN:
            return value
        if _start(row_key) in self._scanned:
            return None
        likely: Any = self.likely
        self.likely = tuple
        unknown = {wanted for wanted in (row_key, *likely()) if wanted not in self._known}
        found = self.reader.fetch(unknown)
        self._known.update({wanted: found.get(wanted) for wanted in unknown})
        return self._known[row_key]

    def all(self, start: int | None = None) -> dict[RowKey, str]:
        """All current rows; in a table with windows, those of the window that begins at ``start``."""
        if start not in self._scanned:
            # Sorted, so that a repeated batch sees the same order. Rows whose key text is not canonical are left out.
            is_key = text_of(self.plan).is_key
            found = sorted(self.reader.scan(start).items())
            rows = {row_key: value for row_key, value in found if is_key(_key(row_key))}
            for row_key, value in self._replaced.items():
                if value is _UNKNOWN and _start(row_key) == start:
                    self._replaced[row_key] = rows.get(row_key)
            self._known = {**rows, **self._known}
            self._scanned.add(start)
        known = self._known.items()
        return {row_key: value for row_key, value in known if value is not None and _start(row_key) == start}

    def keep(self, timestamp: int | None) -> None:
        """The current event succeeded: keep its writes."""
        if self._replaced:
            by = timestamp, None if self.clock is None else self.clock.stream
            for row_key in self._replaced:
                self._written[row_key] = by
            self._replaced.clear()
        if self.clock is not None:
            self.clock.keep()

    def drop(self) -> None:
        """The current event failed: undo its writes."""
        for row_key, value in self._replaced.items():
            if value is _UNKNOWN:
                del self._known[row_key]
            else:
                self._known[row_key] = value
        self._replaced.clear()
        if self.clock is not None:
            self.clock.drop()


def _start(row_key: RowKey) -> int | None:
    return row_key.start if isinstance(row_key, Cell) else None


def _key(row_key: RowKey) -> str:
    return row_key.key if isinstance(row_key, Cell) else row_key

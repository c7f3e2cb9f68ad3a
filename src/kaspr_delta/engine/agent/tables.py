"""Tables as functions see them: dict-like, with the writes of earlier events visible and nothing committed yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from kaspr_delta.plan.definition import TablePlan
from kaspr_delta.serde.table_text import TableText

_MISSING = object()


class TableReader(Protocol):
    """Reads a table as it was before the batch. Keys and values are table text."""

    def fetch(self, keys: Collection[str]) -> dict[str, str]:
        """The values of those of the keys that are there."""
        ...

    def scan(self) -> dict[str, str]:
        """All rows."""
        ...


@dataclass
class TableState:
    """One table during a batch: what was read, what events before wrote, what the current event writes.

    ``likely`` names keys worth reading together with the first that is missed; a key missed later is read on the spot.
    """

    plan: TablePlan
    reader: TableReader
    likely: Callable[[], Collection[str]] = tuple
    written: dict[str, tuple[str | None, datetime | None]] = field(default_factory=dict)
    pending: dict[str, str | None] = field(default_factory=dict)
    _read: dict[str, str | None] = field(default_factory=dict)
    _scanned: bool = False

    def get(self, key: str) -> str | None:
        """The current value of a key; None when there is none."""
        if key in self.pending:
            return self.pending[key]
        if key in self.written:
            return self.written[key][0]
        if key not in self._read and not self._scanned:
            self._fetch(key)
        return self._read.get(key)

    def all(self) -> dict[str, str]:
        """All rows as they are now."""
        if not self._scanned:
            # Sorted, so that a batch that runs again sees the same order. A key that is not canonical is no key.
            is_key = TableText(self.plan.serializers).is_key
            self._read = {key: value for key, value in sorted(self.reader.scan().items()) if is_key(key)}
            self._scanned = True
        rows: dict[str, str | None] = {**self._read}
        rows.update({key: value for key, (value, _) in self.written.items()})
        rows.update(self.pending)
        return {key: value for key, value in rows.items() if value is not None}

    def keep(self, timestamp: datetime | None) -> None:
        """The current event succeeded: its writes stand."""
        for key, value in self.pending.items():
            self.written[key] = (value, timestamp)
        self.pending.clear()

    def drop(self) -> None:
        """The current event failed: its writes never were."""
        self.pending.clear()

    def _fetch(self, key: str) -> None:
        keys = {key, *self.likely()} - self._read.keys()
        found = self.reader.fetch(keys)
        self._read.update({wanted: found.get(wanted) for wanted in keys})


class Table(MutableMapping[Any, Any]):
    """The object a function gets under ``paramName``. Values are copies: assign to keep a change.

    Reading a missing key with ``t[k]`` gives a new instance of the ``defaultSelector``'s class, without storing it, or
    raises KeyError. In ``t.get(k, d)`` an explicit ``d`` wins over the class. ``t[k] = None`` deletes; deleting a
    missing key is silent. None is a key that is always missing, and cannot be written.
    """

    def __init__(self, state: TableState, default: Callable[[], Any] | None) -> None:
        self._state = state
        self._text = TableText(state.plan.serializers)
        self._default = default

    def __getitem__(self, key: Any) -> Any:
        text = self._find(key)
        if text is not None:
            return self._text.value_object(text)
        if self._default is not None:
            return self._default()
        raise KeyError(key)

    def get(self, key: Any, default: Any = _MISSING) -> Any:
        """The value of a key; without one ``default``, or else a new instance of the table's class, or else None."""
        text = self._find(key)
        if text is not None:
            return self._text.value_object(text)
        if default is not _MISSING:
            return default
        return None if self._default is None else self._default()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._state.pending[self._text.key(key)] = self._text.value(value)

    def __delitem__(self, key: Any) -> None:
        self._state.pending[self._text.key(key)] = None

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Delete a key and return its value; without one ``default``, or else KeyError."""
        text = self._find(key)
        if text is None:
            if default is _MISSING:
                raise KeyError(key)
            return default
        del self[key]
        return self._text.value_object(text)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value of a key, which is ``default`` from now on if there was none."""
        if key not in self:
            self[key] = default
        return self.get(key)

    def __iter__(self) -> Iterator[Any]:
        return iter([self._text.key_object(key) for key in self._state.all()])

    def __len__(self) -> int:
        return len(self._state.all())

    def copy(self) -> dict[Any, Any]:
        """All rows as a dictionary of its own."""
        return dict(self.items())

    def clear(self) -> None:
        """Refused: it would delete rows that no event has to do with. Raises NotImplementedError."""
        msg = f"table {self._state.plan.name!r} cannot be cleared from a function: delete keys one by one"
        raise NotImplementedError(msg)

    def prefix_scan(self, prefix: str | bytes) -> Iterator[tuple[Any, Any]]:
        """Rows whose key is text (in a raw table: bytes) that begins with the prefix, as pairs."""
        raw = self._state.plan.serializers.key == "raw"
        wanted: Any = prefix.encode() if raw and isinstance(prefix, str) else prefix
        for key, value in self._state.all().items():
            decoded = self._text.key_object(key)
            if type(decoded) is type(wanted) and decoded.startswith(wanted):
                yield decoded, self._text.value_object(value)

    def _find(self, key: Any) -> str | None:
        return None if key is None else self._state.get(self._text.key(key))

"""Tables as functions see them: dictionaries that include the writes of earlier events."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from kaspr_delta.engine.agent.table_state import TableState
from kaspr_delta.functions.call import call
from kaspr_delta.functions.snippet import in_empty_scope
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.serde.typed_text import text_of

_MISSING = object()
NOT_WRITABLE = "table {!r} cannot be written here: only agents write tables, while they process an event"
"""The error for a write to a table where functions may only read tables."""


class TableObject(MutableMapping[Any, Any]):
    """The common methods of tables as functions see them. Values are copies: assign to keep a change.

    A missing key reads as a new instance of the ``defaultSelector``'s class, which is not stored. On a read-only table
    every write raises TypeError. Raises TypeError for a defaultSelector that returns no class.
    """

    def __init__(self, state: TableState, *, read_only: bool = False) -> None:
        self._state = state
        self._read_only = read_only or state.plan.is_only_read
        self._text = text_of(state.plan)
        self._default = _default_class(state.plan)

    @abstractmethod
    def _find(self, key: Any) -> str | None:
        """The text of a key's value; None if the key is missing. Not counted as a read."""

    @abstractmethod
    def _rows(self) -> Mapping[Any, str]:
        """The texts of all keys and values."""

    def get(self, key: Any, default: Any = _MISSING) -> Any:
        """The value of a key; if missing ``default``, else a new instance of the table's class, else None."""
        text = self._retrieve(key)
        if text is not None:
            return self._text.value_object(text)
        if default is not _MISSING:
            return default
        return None if self._default is None else self._default()

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Delete a key and return its value; if missing return ``default``, or raise KeyError without it."""
        text = self._find(key)
        if text is None:
            if default is _MISSING:
                raise KeyError(key)
            return default
        del self[key]
        return self._text.value_object(text)

    def __iter__(self) -> Iterator[Any]:
        return iter([self._text.key_object(key) for key in self._rows()])

    def __len__(self) -> int:
        return len(self._rows())

    def copy(self) -> dict[Any, Any]:
        return dict(self.items())

    def clear(self) -> None:
        """Raise NotImplementedError: it would delete rows unrelated to the event."""
        msg = f"table {self._state.plan.name!r} cannot be cleared from a function: delete keys one by one"
        raise NotImplementedError(msg)

    def _retrieve(self, key: Any) -> str | None:
        self._state.counts["keys_retrieved"] += 1
        return self._find(key)

    def _missing(self, key: Any) -> Any:
        """The value of a missing key: a new instance of the table's class. Raises KeyError without a class."""
        if self._default is None:
            raise KeyError(key)
        return self._default()

    def _check_writable(self) -> None:
        if self._read_only:
            plan = self._state.plan
            raise TypeError(plan.refusal if plan.is_only_read else NOT_WRITABLE.format(plan.name))


class Table(TableObject):
    """The object a function gets under ``paramName``.

    Reading a missing key with ``t[k]`` raises KeyError without a ``defaultSelector``. In ``t.get(k, d)`` an explicit
    ``d`` wins over the class. ``t[k] = None`` deletes; deleting a missing key is silent. The key None is always missing
    and cannot be written.
    """

    def __getitem__(self, key: Any) -> Any:
        text = self._retrieve(key)
        return self._missing(key) if text is None else self._text.value_object(text)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write(key, self._text.row(key, value))

    def __delitem__(self, key: Any) -> None:
        self._write(key, None)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value of a key; if missing, ``default`` is stored and returned."""
        if key not in self:
            self[key] = default
        return self.get(key)

    def prefix_scan(self, prefix: str | bytes) -> Iterator[tuple[Any, Any]]:
        """Pairs of key and value of the rows whose key is text (in a raw table: bytes) that begins with the prefix."""
        raw = self._state.plan.serializers.key == "raw"
        wanted: Any = prefix.encode() if raw and isinstance(prefix, str) else prefix
        for key, value in self._rows().items():
            decoded = self._text.key_object(key)
            if type(decoded) is type(wanted) and decoded.startswith(wanted):
                yield decoded, self._text.value_object(value)

    def _write(self, key: Any, text: str | None) -> None:
        self._check_writable()
        self._state.put(self._text.key(key), text)

    def _find(self, key: Any) -> str | None:
        return None if key is None else self._state.get(self._text.key(key))

    def _rows(self) -> Mapping[Any, str]:
        return self._state.all()


def _default_class(plan: TablePlan) -> type | None:
    """The class whose new instance a missing key reads as; None without a defaultSelector."""
    if plan.default is None:
        return None
    selected = call(in_empty_scope(plan.default), None, {})
    if not isinstance(selected, type):
        msg = f"defaultSelector of table {plan.name!r} must return a class, such as int or dict, not {selected!r}"
        raise TypeError(msg)
    return selected

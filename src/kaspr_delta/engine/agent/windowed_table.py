"""A table with windows as functions see it: ``t[k]`` is the set of a key's windows, relative to the current event."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partialmethod
from typing import TYPE_CHECKING, Any

from kaspr_delta.engine.agent.table import Table, TableObject
from kaspr_delta.engine.agent.table_state import Cell, TableState
from kaspr_delta.engine.streams.clock import length

if TYPE_CHECKING:
    from typing_extensions import Self


class WindowedTable(TableObject):
    """The object a function gets under ``paramName`` for a table with windows.

    A write acts on every open window that contains the time of the current event: ``t[k] += 1`` adds one in each,
    ``t[k] = v`` sets each, ``del t[k]`` and ``t.pop(k)`` delete from each. Dictionary methods read the newest of these
    windows; ``t[k]`` gives a WindowSet for the other windows, and for changes without an operator.
    """

    def __init__(self, state: TableState, *, read_only: bool = False) -> None:
        super().__init__(state, read_only=read_only)
        self.clock: Any = state.clock  # a table with windows has one

    def __getitem__(self, key: Any) -> WindowSet:
        return WindowSet(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(value, WindowSet):  # `t[k] += 1` has already written when it assigns the set
            self._replace(key, lambda _: value)

    def __delitem__(self, key: Any) -> None:
        self._replace(key, lambda _: None)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value in the newest window; open windows without a value get ``default`` first."""
        self._replace(key, lambda text: default if text is None else self._text.value_object(text))
        return self.get(key)

    def items(self) -> Any:
        """Pairs of key and value in the newest window of the event's time."""
        text = self._text
        return [(text.key_object(key), text.value_object(value)) for key, value in self._rows().items()]

    def values(self) -> Any:
        """The values in the newest window of the event's time."""
        return [value for _, value in self.items()]

    def value_at(self, key: Any, at: int) -> Any:
        """The value in the newest window that contains an instant; if missing a new instance of the table's class.

        Raises KeyError without a class.
        """
        self._state.counts["keys_retrieved"] += 1
        return self._value(key, self._find_at(key, at))

    def change(self, key: Any, operation: Callable[[Any, Any], Any], operand: Any) -> None:
        """Apply an operator to the value in every open window; a missing value starts with the table's default.

        Raises KeyError for a missing value if the table has no default.
        """
        self._replace(key, lambda text: operation(self._value(key, text), operand))

    def _replace(self, key: Any, function: Callable[[str | None], Any]) -> None:
        """Replace the value in every open window of the event's time by a function of its text (None: missing)."""
        self._check_writable()
        text = self._text.key(key)
        for start in self.clock.window.starts(self.clock.at):
            if self.clock.is_open(start):
                cell = Cell(text, start)
                self._state.put(cell, self._text.value(function(self._state.get(cell))))
            else:
                self._state.counts["late_dropped"] += 1

    def _value(self, key: Any, text: str | None) -> Any:
        return self._missing(key) if text is None else self._text.value_object(text)

    def _find(self, key: Any) -> str | None:
        return self._find_at(key, self.clock.at)

    def _find_at(self, key: Any, at: int) -> str | None:
        return None if key is None else self._state.get(Cell(self._text.key(key), self.clock.window.start(at)))

    def _rows(self) -> Mapping[str, str]:
        newest: Any = self._state.all(self.clock.window.start(self.clock.at))
        return {cell.key: value for cell, value in newest.items()}


def table_object(state: TableState, *, read_only: bool) -> Table | WindowedTable:
    """The object that functions get. Raises TypeError for a defaultSelector that returns no class."""
    return (Table if state.clock is None else WindowedTable)(state, read_only=read_only)


class WindowSet:
    """The windows of one key, relative to the current event. ``+=`` and the other operators change all open windows."""

    def __init__(self, table: WindowedTable, key: Any) -> None:
        self._table = table
        self._key = key

    def value(self) -> Any:
        """The value in the newest window of the event's time, which ``relativeTo`` defines."""
        return self._table.value_at(self._key, self._table.clock.at)

    def current(self) -> Any:
        """The value in the newest window of the event's own timestamp."""
        return self._table.value_at(self._key, self._table.clock.event)

    def now(self) -> Any:
        """The value in the newest window of the current wall-clock time."""
        return self._table.value_at(self._key, self._table.clock.current())

    def delta(self, duration: float | timedelta | str) -> Any:
        """The value a duration (seconds, a timedelta, or text such as ``"5m"``) before the event's time."""
        return self._table.value_at(self._key, self._table.clock.at - length(duration))

    def apply(self, operation: Callable[[Any, Any], Any], operand: Any) -> Self:
        """Replace the value in every open window by the result of ``operation(value, operand)``."""
        self._table.change(self._key, operation, operand)
        return self

    def __repr__(self) -> str:
        return f"<windows of {self._key!r}: .value(), .current(), .now() and .delta(seconds) are their values>"

    __iadd__ = partialmethod(apply, operator.add)
    __isub__ = partialmethod(apply, operator.sub)
    __imul__ = partialmethod(apply, operator.mul)
    __itruediv__ = partialmethod(apply, operator.truediv)
    __ifloordiv__ = partialmethod(apply, operator.floordiv)
    __imod__ = partialmethod(apply, operator.mod)
    __ipow__ = partialmethod(apply, operator.pow)
    __ior__ = partialmethod(apply, operator.or_)
    __iand__ = partialmethod(apply, operator.and_)

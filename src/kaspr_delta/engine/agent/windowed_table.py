"""A table with windows as functions see it: ``t[k]`` is the set of a key's windows, relative to the current event."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, MutableMapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kaspr_delta.engine.agent.table import NOT_WRITABLE
from kaspr_delta.engine.agent.table_state import Cell, TableState
from kaspr_delta.engine.streams.clock import Clock, length
from kaspr_delta.serde.table_text import TableText

if TYPE_CHECKING:
    from typing_extensions import Self

_MISSING = object()


class WindowedTable(MutableMapping[Any, Any]):
    """The object a function gets under ``paramName`` for a table with windows.

    A write acts on every open window that contains the time of the current event: ``t[k] += 1`` adds one in each,
    ``t[k] = v`` sets each, ``del t[k]`` deletes from each. ``t.get(k)``, ``k in t``, ``items()`` and ``len`` read the
    newest of these windows; ``t[k]`` gives a WindowSet for the other windows, and for changes without an operator.
    """

    def __init__(
        self,
        state: TableState[Cell],
        clock: Clock,
        default: Callable[[], Any] | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self._state = state
        self._read_only = read_only
        self._clock = clock
        self._text = TableText(state.plan.serializers)
        self._default = default

    def __getitem__(self, key: Any) -> WindowSet:
        return WindowSet(self, key)

    def get(self, key: Any, default: Any = _MISSING) -> Any:
        """The value in the newest window; if missing ``default``, else a new instance of the table's class or None."""
        self._state.retrieved += 1
        value = self.read(key, self._clock.at)
        if value is not _MISSING:
            return value
        if default is not _MISSING:
            return default
        return None if self._default is None else self._default()

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(value, WindowSet):  # `t[k] += 1` has already written when it assigns the set
            self.apply(key, lambda _: value)

    def __delitem__(self, key: Any) -> None:
        self.apply(key, lambda _: None)

    def __contains__(self, key: object) -> bool:
        return self.read(key, self._clock.at) is not _MISSING

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Delete a key from the open windows and return its value in the newest window.

        If it has no value there, return ``default``, or raise KeyError without it.
        """
        value = self.read(key, self._clock.at)
        if value is _MISSING:
            if default is _MISSING:
                raise KeyError(key)
            return default
        del self[key]
        return value

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value in the newest window; open windows without a value get ``default`` first."""
        self.apply(key, lambda value: default if value is _MISSING else value)
        return self.get(key)

    def __iter__(self) -> Iterator[Any]:
        return iter([self._text.key_object(cell.key) for cell in self._newest()])

    def __len__(self) -> int:
        return len(self._newest())

    def items(self) -> Any:
        """Pairs of key and value in the newest window of the event's time."""
        text = self._text
        return [(text.key_object(cell.key), text.value_object(value)) for cell, value in self._newest().items()]

    def values(self) -> Any:
        """The values in the newest window of the event's time."""
        return [value for _, value in self.items()]

    def copy(self) -> dict[Any, Any]:
        """The newest window as a new dictionary."""
        return dict(self.items())

    def clear(self) -> None:
        """Raise NotImplementedError: it would delete rows unrelated to the event."""
        msg = f"table {self._state.plan.name!r} cannot be cleared from a function: delete keys one by one"
        raise NotImplementedError(msg)

    def read(self, key: Any, at: int) -> Any:
        """The value in the newest window that contains an instant, or ``_MISSING``."""
        if key is None:
            return _MISSING
        text = self._state.get(Cell(self._text.key(key), self._clock.window.start(at)))
        return _MISSING if text is None else self._text.value_object(text)

    def known(self, key: Any, at: int) -> Any:
        """As ``read``, but a missing key gives a new instance of the table's class. Raises KeyError without a class."""
        self._state.retrieved += 1
        value = self.read(key, at)
        if value is not _MISSING:
            return value
        if self._default is None:
            raise KeyError(key)
        return self._default()

    def apply(self, key: Any, function: Callable[[Any], Any]) -> None:
        """Replace the value in every open window of the event's time. Raises TypeError if the table is read-only."""
        if self._read_only:
            raise TypeError(NOT_WRITABLE.format(self._state.plan.name))
        text = self._text.key(key)
        for start in self._clock.window.starts(self._clock.at):
            if not self._clock.is_open(start):
                self._state.late += 1
            else:
                cell = Cell(text, start)
                held = self._state.get(cell)
                value = function(_MISSING if held is None else self._text.value_object(held))
                self._state.put(cell, self._text.value(value))

    def changed(self, key: Any, operation: Callable[[Any, Any], Any], operand: Any) -> None:
        """Apply an operator to the value in every open window; a missing value starts with the table's default.

        Raises KeyError for a missing value if the table has no default.
        """

        def result(value: Any) -> Any:
            if value is _MISSING:
                if self._default is None:
                    raise KeyError(key)
                value = self._default()
            return operation(value, operand)

        self.apply(key, result)

    @property
    def clock(self) -> Clock:
        """The clock that selects the windows."""
        return self._clock

    def _newest(self) -> dict[Cell, str]:
        return self._state.all(self._clock.window.start(self._clock.at))


class WindowSet:
    """The windows of one key, relative to the current event. ``+=`` and the other operators change all open windows."""

    def __init__(self, table: WindowedTable, key: Any) -> None:
        self._table = table
        self._key = key

    def value(self) -> Any:
        """The value in the newest window of the event's time, which ``relativeTo`` defines."""
        return self._table.known(self._key, self._table.clock.at)

    def current(self) -> Any:
        """The value in the newest window of the event's own timestamp."""
        return self._table.known(self._key, self._table.clock.event)

    def now(self) -> Any:
        """The value in the newest window of the current wall-clock time."""
        return self._table.known(self._key, self._table.clock.current())

    def delta(self, duration: float | timedelta | str) -> Any:
        """The value a duration (seconds, a timedelta, or text such as ``"5m"``) before the event's time."""
        return self._table.known(self._key, self._table.clock.at - length(duration))

    def apply(self, operation: Callable[[Any, Any], Any], operand: Any) -> Self:
        """Replace the value in every open window by the result of ``operation(value, operand)``."""
        self._table.changed(self._key, operation, operand)
        return self

    def __repr__(self) -> str:
        return f"<windows of {self._key!r}: .value(), .current(), .now() and .delta(seconds) are their values>"

    def __iadd__(self, operand: Any) -> Self:
        return self.apply(operator.add, operand)

    def __isub__(self, operand: Any) -> Self:
        return self.apply(operator.sub, operand)

    def __imul__(self, operand: Any) -> Self:
        return self.apply(operator.mul, operand)

    def __itruediv__(self, operand: Any) -> Self:
        return self.apply(operator.truediv, operand)

    def __ifloordiv__(self, operand: Any) -> Self:
        return self.apply(operator.floordiv, operand)

    def __imod__(self, operand: Any) -> Self:
        return self.apply(operator.mod, operand)

    def __ipow__(self, operand: Any) -> Self:
        return self.apply(operator.pow, operand)

    def __ior__(self, operand: Any) -> Self:
        return self.apply(operator.or_, operand)

    def __iand__(self, operand: Any) -> Self:
        return self.apply(operator.and_, operand)

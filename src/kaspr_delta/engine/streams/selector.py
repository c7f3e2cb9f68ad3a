"""Keys that an author's function makes of values: to look up, to refer to or to group by."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.call import asked_for, call_with
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED, account_of_failure, pass_on_interruption
from kaspr_delta.functions.snippet import Snippet, in_empty_scope
from kaspr_delta.functions.time_limit import at_most
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import PROBLEM

DUPLICATE_KEY = "duplicate key"
"""The reason of the problem of a key with several rows in a table, of which always the same one is used."""
DUPLICATES = "; the newest one is used: delete the others"
"""The end of the message about such rows, after their number and key."""
NULL_KEY, NOT_CANONICAL = "null key", "key is not canonical JSON text"
HOW_TO_WRITE_KEYS = 'write keys as canonical JSON text: text in quotes ("P100"), objects sorted'
Problem = dict[str, str | None]
"""A problem of a row: reason, detail and the value in question."""
ARROW_PROBLEM = arrow_schema(f"problem {PROBLEM}").field("problem").type
"""The type of a row's problem in Arrow."""


class Selected(NamedTuple):
    """A key as text, or None; and the problem, if there was one."""

    key: str | None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Selector:
    """A function ``(value)`` or ``(value, key)`` that returns a key, which ``table`` spells.

    Problems mention ``name``, the function's name in a manifest, and ``what``, the role of the key. A key that
    ``looks_up`` existing rows must be of the type of their keys. A key that makes rows may be text although the keys
    are bytes.
    """

    function: Snippet
    table: TableText
    name: str
    what: str
    timeout: float
    looks_up: bool = True

    def __call__(self, value: Any, key: Any, stored: str | None) -> Selected:
        """Return the key of a value. ``stored`` is the value as text, for the problem."""
        try:
            with at_most(self.timeout):
                selected = call_with(in_empty_scope(self.function), value, key)
            return Selected(None if selected is None else self._spelled(selected))
        except SerializationError as error:
            return Selected(None, problem(f"{self.what} cannot be used", str(error), stored))
        except AUTHORS_CODE_FAILED as error:
            return Selected(None, problem(f"{self.name} failed", account_of_failure(error, frames=3), stored))

    def keys_of(self, values: Iterable[Any], keys: Iterable[Any]) -> list[str | None] | None:
        """Return the keys of many values under one time limit, at a fraction of the cost of single calls.

        None if any of them fails: only single calls tell which. Both iterables are read during the call, ``keys`` only
        if the function asks for them. The time to read them counts too.
        """
        try:
            with at_most(self.timeout):
                function = in_empty_scope(self.function)
                if inspect.iscoroutinefunction(function):
                    return None
                arguments = (values, keys)[: asked_for(function, 2)]
                selected = list(map(function, *arguments)) if arguments else [function() for _ in values]
                return [None if one is None else self._spelled(one) for one in selected]
        except AUTHORS_CODE_FAILED as error:
            pass_on_interruption(error)
            return None

    def _spelled(self, key: Any) -> str | None:
        return self.table.foreign_key(key) if self.looks_up else self.table.key(key)


def problem(reason: str, detail: str, value: str | None) -> Problem:
    """Return the problem of a row."""
    return {"reason": reason, "detail": detail, "value": value}


def why_no_key(text: TableText, key: str | None) -> str | None:
    """The reason why a key of a table cannot be joined; None if it can."""
    if key is None:
        return NULL_KEY
    return None if text.is_key(key) else NOT_CANONICAL


def duplicates(copies: int | None, value: str | None) -> Problem | None:
    """Return the problem of a key with several rows; else None. ``with_duplicates`` is the same for columns."""
    if copies is None or copies == 1:
        return None
    return problem(DUPLICATE_KEY, f"{copies} rows have this key{DUPLICATES}", value)


@dataclass(frozen=True, slots=True)
class SelectKeys:
    """Adds the key that each row of a table refers to, in a column ``name`` (NULL: none), and ``problem``.

    A function makes it of the row's value and key. Without one it is the row's own key, as a table with ``own`` keys
    spells it. ``checked``: the rows' keys are known to be canonical.
    """

    name: str
    table: TableText
    function: Selector | None
    own: TableText
    checked: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            found = list(map(self._selected, keys, values, _copies(batch)))
            selected = pa.array([one.key for one in found], pa.string())
            problems = pa.array([one.problem for one in found], ARROW_PROBLEM)
            yield batch.append_column(self.name, selected).append_column("problem", problems)

    def _selected(self, key: str | None, value: str | None, copies: int | None) -> Selected:
        if value is None:
            return Selected(None)
        refused = None if self.checked else why_no_key(self.table, key)
        if key is None or refused is not None:
            return Selected(None, problem(str(refused), HOW_TO_WRITE_KEYS, value))
        try:
            row, row_key = self.table.value_object(value), self.table.event_key(key)
            if self.function is None:
                selected, failure = Selected(self.own.key(row_key))
            else:
                selected, failure = self.function(row, row_key, value)
        except SerializationError as error:
            return Selected(None, problem("value cannot be read", str(error), value))
        return Selected(selected, failure or duplicates(copies, value))


def _copies(rows: pa.RecordBatch) -> list[int | None]:
    """How many rows of a table have the key of each row, if that was counted."""
    if "duplicate_count" not in rows.schema.names:
        return [None] * rows.num_rows
    copies: list[int | None] = rows.column("duplicate_count").to_pylist()
    return copies

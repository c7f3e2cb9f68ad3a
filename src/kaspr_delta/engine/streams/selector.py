"""Keys that an author's function makes of values: to look up, to refer to or to group by."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.call import asked_for, call_with
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED, account_of_failure, pass_on_interruption
from kaspr_delta.functions.snippet import Snippet, in_empty_scope
from kaspr_delta.functions.time_limit import at_most
from kaspr_delta.serde.table_text import TableText

DUPLICATE_KEY = "duplicate key"
"""The reason of the problem of a key with several rows in a table, of which always the same one is used."""
DUPLICATES = "; the newest one is used: delete the others"
"""The end of the message about such rows, after their number and key."""
Problem = dict[str, str | None]
"""A problem of a row: reason, detail and the value in question (see ``dead_letters.ARROW_PROBLEM``)."""


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
    timeout: float = inf
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
            pass_on_interruption(error)
            return Selected(None, problem(f"{self.name} failed", account_of_failure(frames=3), stored))

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


def duplicates(copies: int | None, value: str | None) -> Problem | None:
    """Return the problem of a key with several rows; else None. ``with_duplicates`` is the same for columns."""
    if copies is None or copies == 1:
        return None
    return problem(DUPLICATE_KEY, f"{copies} rows have this key{DUPLICATES}", value)

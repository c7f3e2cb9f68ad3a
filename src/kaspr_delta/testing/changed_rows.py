"""The rows and records that came out differently in one of two runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from kaspr_delta.testing.found import Fields

# Fields that tell rows of one key apart, and that are no part of their value.
_NAMES = ("resource", "source", "key", "window_start", "window_end")
# Fields that differ from run to run, or that repeat others.
_OF_ITS_TIME = {*_NAMES, "timestamp", "offset", "partition"}


class ChangedRow(NamedTuple):
    """A row or record of a key that only the run ``before`` has, only the one ``after``, or both with other values."""

    key: str
    before: Fields | None
    after: Fields | None

    @property
    def kind(self) -> Literal["added", "removed", "changed"]:
        """The kind of the difference."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"


def changed_rows(before: Sequence[Fields], after: Sequence[Fields]) -> list[ChangedRow]:
    """The rows or records that differ, by key text. Equal ones of a key are taken out first, whatever their order."""
    return [
        ChangedRow(key, *pair)
        for key, (old, new) in sorted(_by_key(before, after).items())
        for pair in zip_longest(_without(old, new), _without(new, old))
    ]


def changed_fields(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The fields that differ inside two values: the path of each, and both values; ``...`` where there is none.

    >>> list(changed_fields({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2}))
    [('a.b', 1, 3)]
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in {**before, **after}:
            inside = f"{path}.{name}" if path else str(name)
            yield from changed_fields(before.get(name, ...), after.get(name, ...), inside)
    elif _text(before) != _text(after):
        yield path, before, after


def _by_key(before: Sequence[Fields], after: Sequence[Fields]) -> dict[str, tuple[list[Fields], list[Fields]]]:
    found: dict[str, tuple[list[Fields], list[Fields]]] = {}
    for at, rows in enumerate((before, after)):
        for row in rows:
            key = " ".join(_text(row[name]) if name == "key" else str(row[name]) for name in _NAMES if name in row)
            fields = {name: one for name, one in row.items() if name not in _OF_ITS_TIME and (one or name != "headers")}
            found.setdefault(key, ([], []))[at].append(fields)
    return found


def _without(rows: Sequence[Fields], others: Sequence[Fields]) -> list[Fields]:
    """The rows that are left when each of the others has taken one that equals it."""
    takers, left = Counter(map(_text, others)), list[Fields]()
    for row in rows:
        text = _text(row)
        if takers[text]:
            takers[text] -= 1
        else:
            left.append(row)
    return left


def _text(value: Any) -> str:
    """A value as JSON text: unlike in Python, a truth value is no number."""
    return "" if value is ... else json.dumps(value, sort_keys=True, ensure_ascii=False)

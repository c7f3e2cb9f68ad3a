"""Rows before and after a change, with a column for each field: the fields that changed can be marked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kaspr_delta.serde.unfolded import parsed, unfolded
from kaspr_delta.web.past import Change


@dataclass(frozen=True, slots=True)
class Changes:
    """Changed rows with the same columns; None in place of a row that did not exist."""

    columns: tuple[str, ...]
    pairs: tuple[tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None], ...]


def unfolded_changes(changes: Sequence[Change], json: Collection[str]) -> Changes:
    """The kind of each change, and its row before and after. Columns named by ``json`` hold JSON text."""
    sides = [side for change in changes for side in (change.before, change.after)]
    rows = iter(unfolded(parsed((row for row in sides if row is not None), json)))
    found = [None if side is None else next(rows) for side in sides]
    columns = next((tuple(row) for row in found if row is not None), ())
    words = (change.word for change in changes)
    return Changes(columns, tuple(zip(words, found[::2], found[1::2], strict=True)))

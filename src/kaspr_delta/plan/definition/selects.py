"""The columns that joins select for their result tables, resolved."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from kaspr_delta.functions.column_paths import Path
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.spec.ddl import Column, Type


@dataclass(frozen=True, slots=True)
class SelectPlan:
    """The columns of a result: a name and a path from ``left`` or ``right`` for each; or a function of both sides.

    ``declared`` are the columns with their types; empty: the types come from the sides.
    """

    paths: tuple[tuple[str, Path], ...]
    function: Snippet | None
    declared: tuple[Column, ...]

    @property
    def fingerprint(self) -> str:
        """A hash that differs between selections."""
        made = self.function.fingerprint if self.function else ""
        return hashlib.sha256(f"{self.paths} {made} {', '.join(map(str, self.declared))}".encode()).hexdigest()[:16]

    def columns(self, left: Type | None, right: Type | None) -> tuple[Column, ...]:
        """The columns of the result, for sides of these types. Columns of unknown type are left out."""
        if self.declared:
            return self.declared
        sides = {"left": left, "right": right}
        found = ((name, at_path(sides[path[0]], path[1:])) for name, path in self.paths)
        return tuple(Column(name, kind) for name, kind in found if kind is not None)


def at_path(row: Type | None, path: Path) -> Type | None:
    """The type at the end of a path; None if there is no column, or its type is not known."""
    for name in path:
        fields = {column.name: column.type for column in row.fields} if row else {}
        row = fields.get(name)
    return row

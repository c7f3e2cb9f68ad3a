"""What result tables show, resolved."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from kaspr_delta.functions.column_paths import Path
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.spec.ddl import Column, Type


@dataclass(frozen=True, slots=True)
class SelectPlan:
    """The columns of a result, by name where each is found, from ``left`` or ``right`` on; or a function of both sides.

    ``declared`` are their types; empty where those of the sides count.
    """

    paths: tuple[tuple[str, Path], ...]
    function: Snippet | None
    declared: tuple[Column, ...]

    @property
    def fingerprint(self) -> str:
        """What tells one selection from another."""
        made = self.function.fingerprint if self.function else ""
        return hashlib.sha256(f"{self.paths} {made} {', '.join(map(str, self.declared))}".encode()).hexdigest()[:16]

    def columns(self, left: Type | None, right: Type | None) -> tuple[Column, ...]:
        """The columns of the result, for sides of these types; what is not known is left out."""
        if self.declared:
            return self.declared
        sides = {"left": left, "right": right}
        found = ((name, at_path(sides[path[0]], path[1:])) for name, path in self.paths)
        return tuple(Column(name, kind) for name, kind in found if kind is not None)


def at_path(row: Type | None, path: Path) -> Type | None:
    """The type of what is at the end of a path; None where there is nothing, or nothing known."""
    for name in path:
        fields = {column.name: column.type for column in row.fields} if row else {}
        row = fields.get(name)
    return row

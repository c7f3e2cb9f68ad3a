"""The place of every field of a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.diagnostics import Location


@dataclass(frozen=True, slots=True)
class Place:
    """The places of a key and its value; an element of a list has its value's place as key.

    ``style`` is the style of the value in the YAML: ``|``, ``>``, a quote or None.
    """

    key: Location
    value: Location
    style: str | None = None

    @property
    def text_line(self) -> int:
        """The line on which the value's text begins: for a block, the line after its ``|`` or ``>``."""
        return self.value.line + 1 if self.style in {"|", ">"} else self.value.line


@dataclass(frozen=True, slots=True)
class Positions:
    """The places of a document by field path; the document itself has the empty path."""

    places: Mapping[FieldPath, Place]

    def place(self, path: FieldPath) -> Place:
        """The place of a field, or of its nearest parent that exists."""
        while path not in self.places:
            path = path[:-1]
        return self.places[path]

    def key(self, path: FieldPath) -> Location:
        """The place of a field's key, or of its nearest parent's key."""
        return self.place(path).key

    def value(self, path: FieldPath) -> Location:
        """The place where a field's value begins. For an absent field: the nearest parent's key."""
        return self.places[path].value if path in self.places else self.key(path)

"""Where every field of a document stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.diagnostics import Location


@dataclass(frozen=True, slots=True)
class Place:
    """A key and its value; an element of a list has its value's place as key.

    ``style`` is how the value is written: ``|``, ``>``, a quote or None.
    """

    key: Location
    value: Location
    style: str | None = None

    @property
    def text_line(self) -> int:
        """The line on which the value's text begins: of a block, the line after its ``|``."""
        return self.value.line + 1 if self.style in {"|", ">"} else self.value.line


@dataclass(frozen=True, slots=True)
class Positions:
    """The places of a document by field path; the document itself is the empty path."""

    places: Mapping[FieldPath, Place]

    def place(self, path: FieldPath) -> Place:
        """The place of a field, or of its nearest parent that exists."""
        while path not in self.places:
            path = path[:-1]
        return self.places[path]

    def key(self, path: FieldPath) -> Location:
        """Where the key of a field stands, or that of its nearest parent."""
        return self.place(path).key

    def value(self, path: FieldPath) -> Location:
        """Where the value of a field begins. For a field that is absent: the nearest parent's key."""
        return self.places[path].value if path in self.places else self.key(path)

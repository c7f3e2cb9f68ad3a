"""The location of every field of a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.diagnostics import Location


@dataclass(frozen=True, slots=True)
class FieldLocation:
    """The locations of a key and its value; an element of a list has its value's location as key.

    ``style`` is the style of the value in the YAML: ``|``, ``>``, a quote or None. ``written`` is the text of a value
    without quotes, as it stands there: ``007``, not 7.
    """

    key: Location
    value: Location
    style: str | None = None
    written: str | None = None

    @property
    def text_line(self) -> int:
        """The line on which the value's text begins: for a block, the line after its ``|`` or ``>``."""
        return self.value.line + 1 if self.style in {"|", ">"} else self.value.line


@dataclass(frozen=True, slots=True)
class Positions:
    """The locations of a document by field path; the document itself has the empty path."""

    locations: Mapping[FieldPath, FieldLocation]

    def location(self, path: FieldPath) -> FieldLocation:
        """The location of a field, or of its nearest parent that exists."""
        while path not in self.locations:
            path = path[:-1]
        return self.locations[path]

    def key(self, path: FieldPath) -> Location:
        """The location of a field's key, or of its nearest parent's key."""
        return self.location(path).key

    def value(self, path: FieldPath) -> Location:
        """The location where a field's value begins. For an absent field: the nearest parent's key."""
        return self.locations[path].value if path in self.locations else self.key(path)

    def written(self, path: FieldPath) -> str | None:
        """The text of a value that has no quotes; None for other values, and for an absent field."""
        return self.locations[path].written if path in self.locations else None

"""Dataclasses that are found by their names, so that they can be written as JSON and read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Registry(Generic[Thing]):
    """Classes of one kind by name. ``of`` is the field of the JSON form that holds the name."""

    of: str
    classes: dict[str, type[Thing]]

    def add(self, one: type[Any]) -> type[Any]:
        """Register a dataclass; a decorator."""
        self.classes[one.__name__] = one
        return one

    def write(self, thing: Any) -> dict[str, Any]:
        """Its JSON form."""
        return {self.of: type(thing).__name__, **asdict(thing)}

    def read(self, written: Mapping[str, Any]) -> Thing:
        """The object of a JSON form. Raises KeyError if no class has the name."""
        fields = {name: value for name, value in written.items() if name != self.of}
        return self.classes[written[self.of]](**fields)

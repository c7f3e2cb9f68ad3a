"""The base class of the shapes, their inputs and their claims."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from tests.chaos.registry import Registry
from tests.chaos.sources import Source
from tests.chaos.tables import Tables, Values


class Claim(NamedTuple):
    """A condition at a quiet point: ``found`` equals ``expected``, both canonical text by key.

    During a continuous run, a claim that is not ``prompt`` is not checked: its table or files may lag behind.
    """

    what: str
    expected: dict[str, str]
    found: dict[str, str]
    prompt: bool = True


class Inputs(NamedTuple):
    """The inputs that a shape may have: sources and earlier shapes, by name."""

    sources: Mapping[str, Source]
    shapes: Mapping[str, Shape]

    def fields(self, name: str, value: str) -> str:
        """A Python expression for a row with the fields ``fk``, ``n`` and ``g``, taken from a value of a table.

        ``value`` is an expression for this value: such a row itself, or a pair whose sides contain one.
        """
        return value if name in self.sources else self.shapes[name].fields(self, value)

    def values(self, name: str, tables: Tables) -> Values:
        """The current rows of a table."""
        if name in self.sources:
            return tables.live(self.sources[name])
        return self.shapes[name].values(tables)

    def has_fields(self) -> list[str]:
        """The tables whose values contain a row with these fields."""
        return [*self.sources, *(name for name, shape in self.shapes.items() if shape.has_fields)]


@dataclass(frozen=True)
class Shape(ABC):
    """A resource. ``reads`` names its input tables, ``topics`` the topics that it reads or posts to.

    ``has_fields``: the values of its table contain a row with the fields of a source (``Inputs.fields``).
    ``can_rebuild``: its state can be rebuilt. ``runs``: a run includes it (not web views). ``is_plain_table``: it is a
    table of keys and values.
    """

    name: str

    has_fields: ClassVar[bool] = False
    can_rebuild: ClassVar[bool] = False
    runs: ClassVar[bool] = True
    is_plain_table: ClassVar[bool] = False
    weight: ClassVar[int] = 1

    @property
    @abstractmethod
    def reads(self) -> Sequence[str]:
        """The names of its input tables."""

    @property
    def topics(self) -> Sequence[str]:
        """The names of its topics."""
        return ()

    @property
    @abstractmethod
    def ref(self) -> str:
        """The resource as ``kind/name``."""

    @classmethod
    @abstractmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> Shape | None:
        """A random shape over some of the inputs; None if no input fits."""

    @abstractmethod
    def manifest(self, inputs: Inputs) -> str:
        """The YAML document without its metadata: kind and spec."""

    def also(self) -> str | None:
        """Another YAML document that it needs, with metadata; None if it needs none."""
        return None

    def binding(self, others: Path) -> str | None:
        """The binding of its topic in ``spec.topics``, as YAML in one line, or None. ``others``: a folder for files."""
        return None

    @abstractmethod
    def claims(self, inputs: Inputs, tables: Tables) -> Iterator[Claim]:
        """The claims to check at a quiet point."""

    def fields(self, inputs: Inputs, value: str) -> str:
        """See ``Inputs.fields``. Raises TypeError if its values have no such fields."""
        raise TypeError(self.name)

    def values(self, tables: Tables) -> Values:
        """The current rows of its table. Raises TypeError if it has no table."""
        raise TypeError(self.name)


SHAPES: Registry[Shape] = Registry("shape", {})


def evaluated(expression: str, value: Any) -> Any:
    """The result of a Python expression in which ``value`` is this value."""
    return eval(expression, {}, {"value": value})  # noqa: S307  this package's own text

"""What all shapes have in common."""

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
    """One thing that must hold at a quiet point: ``found`` is ``expected``, both canonical text by key.

    What is not ``prompt`` may be behind while the application runs without end.
    """

    what: str
    expected: dict[str, str]
    found: dict[str, str]
    prompt: bool = True


class Inputs(NamedTuple):
    """What shapes may be made of: by name sources and the shapes before."""

    sources: Mapping[str, Source]
    shapes: Mapping[str, Shape]

    def fields(self, name: str, value: str) -> str:
        """Python text that gives the fields of a source's row, of a value of this table: a row, or pairs of rows."""
        return value if name in self.sources else self.shapes[name].fields(self, value)

    def values(self, name: str, tables: Tables) -> Values:
        """The rows of a table as they are now."""
        if name in self.sources:
            return tables.live(self.sources[name])
        return self.shapes[name].values(tables)

    def has_fields(self) -> list[str]:
        """Tables whose values lead to the fields of a source's row."""
        return [*self.sources, *(name for name, shape in self.shapes.items() if shape.has_fields)]


@dataclass(frozen=True)
class Shape(ABC):
    """A resource. ``reads`` names the tables it is made of, ``topics`` the topics.

    ``has_fields``: it shows a table, whose values lead to the fields of a source's row. ``can_rebuild``: its state can
    be made anew. ``runs``: it is one of those that run. ``is_plain_table``: it is a table of keys and values.
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
        """The tables it is made of."""

    @property
    def topics(self) -> Sequence[str]:
        """The topics it is made of."""
        return ()

    @property
    @abstractmethod
    def ref(self) -> str:
        """The resource as ``kind/name``."""

    @classmethod
    @abstractmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> Shape | None:
        """One over some of the inputs; None where they do not fit."""

    @abstractmethod
    def manifest(self, inputs: Inputs) -> str:
        """The YAML document without its metadata: kind and spec."""

    def also(self) -> str | None:
        """Another YAML document that it needs, with its metadata; None where it needs none."""
        return None

    def binding(self, others: Path) -> str | None:
        """What ``spec.topics`` of the application says of a topic, in one line; ``others`` is a folder for files."""
        return None

    @abstractmethod
    def claims(self, inputs: Inputs, tables: Tables) -> Iterator[Claim]:
        """What must hold at a quiet point."""

    def fields(self, inputs: Inputs, value: str) -> str:
        """See ``Inputs.fields``. Raises TypeError where there are none."""
        raise TypeError(self.name)

    def values(self, tables: Tables) -> Values:
        """The rows it shows, where it shows a table. Raises TypeError where it does not."""
        raise TypeError(self.name)


SHAPES: Registry[Shape] = Registry("shape", {})


def evaluated(expression: str, value: Any) -> Any:
    """What Python text that names ``value`` gives."""
    return eval(expression, {}, {"value": value})  # noqa: S307  this package's own text

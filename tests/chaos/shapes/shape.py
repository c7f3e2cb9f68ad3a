"""The base class of the shapes, their registration and their claims."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from tests.chaos.tables import Tables, Values

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.chaos.recipe import Recipe

    Draw = Callable[[random.Random, Recipe], Any]

Class = TypeVar("Class", bound="type[Shape]")

SHAPES: dict[str, type[Shape]] = {}
"""The classes of shapes by name."""


def shape(*, weight: int = 1, **draws: Draw) -> Callable[[Class], Class]:
    """Register a class. ``draws`` has a function for each of its fields but the name, which draws its value."""

    def registered(one: Class) -> Class:
        one.weight, one.draws = weight, draws
        SHAPES[one.__name__] = one
        return one

    return registered


class Claim(NamedTuple):
    """A condition at a quiet point: ``found`` equals ``expected``, both canonical text by key.

    During a continuous run, a claim that is not ``prompt`` is not checked: its table or files may lag behind.
    """

    what: str
    expected: dict[str, str]
    found: dict[str, str]
    prompt: bool = True


@dataclass(frozen=True)
class Shape(ABC):
    """A resource. Its ``kind`` is that of its manifest without ``Kaspr``.

    ``has_fields``: the values of its table contain a row with the fields of a source (``Recipe.fields``).
    ``can_rebuild``: its state can be rebuilt. ``is_plain_table``: it is a table of keys and values.
    """

    name: str

    weight: ClassVar[int]
    draws: ClassVar[Mapping[str, Draw]]
    kind: ClassVar[str]
    has_fields: ClassVar[bool] = False
    can_rebuild: ClassVar[bool] = False
    is_plain_table: ClassVar[bool] = False

    @classmethod
    def draw(cls, dice: random.Random, name: str, recipe: Recipe) -> Self:
        """A random shape of an application that has some shapes already. Raises IndexError if no input fits."""
        return cls(name, **{field: draw(dice, recipe) for field, draw in cls.draws.items()})

    @property
    def reads(self) -> Sequence[str]:
        """The names of its input tables: the values of the fields for them."""
        return [value for field, value in vars(self).items() if field in {"left", "right", "origin", "join", "table"}]

    @property
    def topics(self) -> Sequence[str]:
        """The names of the topics that it reads or posts to."""
        return [value for field, value in vars(self).items() if field == "topic"]

    @property
    def ref(self) -> str:
        """The resource as ``kind/name``."""
        return f"{self.kind.lower()}/{self.name}"

    @property
    def runs(self) -> bool:
        """Whether a run includes it."""
        return self.kind != "WebView"

    @abstractmethod
    def spec(self, recipe: Recipe) -> Mapping[str, Any]:
        """The spec of its manifest."""

    @property
    def own_tables(self) -> Sequence[str]:
        """The names of tables that it writes by itself."""
        return ()

    def bindings(self, warehouse: Path) -> Mapping[str, Any]:
        """The bindings of its topics in ``spec.topics``."""
        return {}

    @abstractmethod
    def claims(self, recipe: Recipe, tables: Tables) -> Iterator[Claim]:
        """The claims to check at a quiet point."""

    def fields(self, recipe: Recipe, value: str) -> str:
        """See ``Recipe.fields``. Raises TypeError if its values have no such fields."""
        raise TypeError(self.name)

    def values(self, tables: Tables) -> Values:
        """The current rows of its table."""
        return tables.made(self.name)


def one_of(*values: str) -> Draw:
    """Draws one of these values."""
    return lambda dice, _: dice.choice(values)


def any_source(dice: random.Random, recipe: Recipe) -> str:
    """The name of a source."""
    return dice.choice(list(recipe.sources))


def any_with_fields(dice: random.Random, recipe: Recipe) -> str:
    """The name of a table whose values contain a row with fields."""
    return dice.choice(recipe.with_fields())


def any_shape(fits: Callable[[Shape], bool]) -> Draw:
    """Draws the name of a shape that fits."""
    return lambda dice, recipe: dice.choice([name for name, one in recipe.shapes.items() if fits(one)])


def function(value: str, name: str = "value") -> dict[str, str]:
    """A Python function in a manifest: its result, and the names of its parameters."""
    return {"python": f"def work({name}):\n    return {value}"}


def evaluated(expression: str, value: Any) -> Any:
    """The result of a Python expression in which ``value`` is this value."""
    return eval(expression, {}, {"value": value})  # noqa: S307  this package's own text

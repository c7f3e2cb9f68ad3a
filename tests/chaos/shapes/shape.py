"""A random application, called recipe: sources, and shapes over them and over one another."""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from typing_extensions import Self

from tests.chaos.sources import KINDS, KeyType, Source
from tests.chaos.tables import Tables, Values
from tests.chaos.topics import FROM_FILES, input_folder

Draw = Callable[[random.Random, "Recipe"], Any]
"""Draws an argument of a step, or a field of a shape, for an application. Raises IndexError if nothing fits."""

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


def one_of(*values: Any) -> Draw:
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


@dataclass(frozen=True)
class Recipe:
    """An application: its sources and shapes by name. A shape may read the shapes before it."""

    sources: Mapping[str, Source]
    shapes: Mapping[str, Shape]

    @classmethod
    def draw(cls, dice: random.Random) -> Recipe:
        """One to three sources of any kind, each read by a shape, and two to four shapes, some of them over others."""
        while not (drawn := cls._draw(dice)).sources:
            pass
        return drawn

    @classmethod
    def _draw(cls, dice: random.Random) -> Recipe:
        keys: KeyType = dice.choice(["text", "text", "number"])
        sources = {}
        for name in "abc"[: dice.randint(2, 3)]:
            kind = dice.choice(KINDS)
            sources[name] = Source(name, kind, keys, has_retention=kind != "foreign" and dice.random() < 0.15)
        shapes: dict[str, Shape] = {}
        wanted = dice.randint(2, 4)
        while len(shapes) < wanted:
            (drawn,) = dice.choices(list(SHAPES.values()), [one.weight for one in SHAPES.values()])
            try:
                shape = drawn.draw(dice, f"{drawn.__name__.lower()}{len(shapes)}", cls(sources, shapes))
            except IndexError:  # no input fits
                continue
            shapes[shape.name] = shape
        return cls(sources, shapes).without(())

    def __str__(self) -> str:
        sources = [f"{name}: {source.kind}" for name, source in self.sources.items()]
        shapes = [f"{name}({', '.join(shape.reads)})" for name, shape in self.shapes.items()]
        return f"{', '.join(sources)}; {', '.join(shapes)}"

    @property
    def topics(self) -> list[str]:
        """The topics of all shapes."""
        return sorted({topic for shape in self.shapes.values() for topic in shape.topics})

    @property
    def keys(self) -> KeyType:
        """The type of the keys of all sources and records."""
        return next((source.keys for source in self.sources.values()), "text")

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

    def with_fields(self) -> list[str]:
        """The tables whose values contain a row with these fields."""
        return [*self.sources, *(name for name, shape in self.shapes.items() if shape.has_fields)]

    def manifests(self, warehouse: Path) -> str:
        """The application as YAML, a document in a line."""
        bindings = {
            topic: binding for shape in self.shapes.values() for topic, binding in shape.bindings(warehouse).items()
        }
        if FROM_FILES in self.topics:
            bindings[FROM_FILES] = {"files": {"path": str(input_folder(warehouse)), "format": "json", "key": "key"}}
        documents = [_document("App", "chaos", {"config": {"topicPartitions": 1}, "topics": bindings})]
        documents += [_document("Table", name, source.spec(warehouse)) for name, source in self.sources.items()]
        for name, shape in self.shapes.items():
            documents += [_document("Table", own, {}) for own in shape.own_tables]
            documents.append(_document(shape.kind, name, shape.spec(self)))
        return "\n---\n".join(documents) + "\n"

    def without(self, names: Collection[str]) -> Recipe:
        """The recipe without some shapes, the shapes that depend on them, and sources that no shape reads."""
        kept: dict[str, Shape] = {}
        for name, shape in self.shapes.items():
            if name not in names and all(read in self.sources or read in kept for read in shape.reads):
                kept[name] = shape
        read = {name for shape in kept.values() for name in shape.reads}
        return Recipe({name: source for name, source in self.sources.items() if name in read}, kept)

    def write(self) -> dict[str, Any]:
        """Its JSON form."""
        shapes = [{"shape": type(shape).__name__, **asdict(shape)} for shape in self.shapes.values()]
        return {"sources": [asdict(source) for source in self.sources.values()], "shapes": shapes}

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Recipe:
        """The recipe of a JSON form."""
        sources = [Source(**one) for one in written["sources"]]
        shapes = [SHAPES[one.pop("shape")](**one) for one in map(dict, written["shapes"])]
        return cls({one.name: one for one in sources}, {one.name: one for one in shapes})


def _document(kind: str, name: str, spec: Mapping[str, Any]) -> str:
    metadata: dict[str, Any] = {"name": name}
    if kind != "App":
        metadata["labels"] = {"kaspr.io/app": "chaos"}
    return json.dumps({"apiVersion": "kaspr.io/v1alpha1", "kind": f"Kaspr{kind}", "metadata": metadata, "spec": spec})

"""A random application: sources, and shapes over them and over one another."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tests.chaos.shapes import SHAPES, Shape
from tests.chaos.shapes.shape import Inputs
from tests.chaos.sources import KeyType, Source
from tests.chaos.topics import FROM_FILES, input_folder

_HEAD = "apiVersion: kaspr.io/v1alpha1"


@dataclass(frozen=True)
class Recipe:
    """An application. A shape may read the shapes before it."""

    sources: tuple[Source, ...]
    shapes: tuple[Shape, ...]

    @classmethod
    def draw(cls, dice: random.Random) -> Recipe:
        """One to three sources of any kind, each read by a shape, and two to four shapes, some of them over others."""
        while not (drawn := cls._draw(dice)).sources:
            pass
        return drawn

    @classmethod
    def _draw(cls, dice: random.Random) -> Recipe:
        keys: KeyType = dice.choice(["text", "text", "number"])
        kinds: list[Literal["json", "typed", "foreign"]] = [
            dice.choice(["json", "typed", "foreign"]) for _ in range(dice.randint(2, 3))
        ]
        sources = {
            name: Source(name, kind, keys, has_retention=kind != "foreign" and dice.random() < 0.15)
            for name, kind in zip("abc", kinds, strict=False)
        }
        shapes: dict[str, Shape] = {}
        wanted = dice.randint(2, 4)
        while len(shapes) < wanted:
            kind = dice.choices(list(SHAPES.classes.values()), [one.weight for one in SHAPES.classes.values()])[0]
            name = f"{kind.__name__.lower()}{len(shapes)}"
            drawn = kind.draw(dice, name, Inputs(sources, shapes))
            if drawn is not None:
                shapes[name] = drawn
        return cls(tuple(sources.values()), tuple(shapes.values())).without(())

    @property
    def inputs(self) -> Inputs:
        """The sources and shapes by name."""
        return Inputs({one.name: one for one in self.sources}, {one.name: one for one in self.shapes})

    def source(self, name: str) -> Source | None:
        """A source by name; None if shrinking has removed it."""
        return self.inputs.sources.get(name)

    @property
    def topics(self) -> list[str]:
        """The topics of all shapes."""
        return sorted({topic for shape in self.shapes for topic in shape.topics})

    @property
    def keys(self) -> KeyType:
        """The type of the keys of all sources and records."""
        return self.sources[0].keys if self.sources else "text"

    def manifests(self, warehouse: Path) -> str:
        """The application as YAML."""
        others = warehouse.parent / "others"
        bindings = [text for shape in self.shapes if (text := shape.binding(others)) is not None]
        if FROM_FILES in self.topics:
            bindings.append(f"{FROM_FILES}: {{files: {{path: {input_folder(warehouse)}, format: json, key: key}}}}")
        spec = f"{{config: {{topicPartitions: 1}}, topics: {{{', '.join(bindings)}}}}}"
        head = f"{_HEAD}\nkind: KasprApp\nmetadata: {{name: chaos}}\nspec: {spec}"
        tables = [
            f"{_HEAD}\nkind: KasprTable\n{_metadata(source.name)}\nspec: {source.spec(warehouse)}"
            for source in self.sources
        ]
        made = [f"{_HEAD}\n{_metadata(shape.name)}\n{shape.manifest(self.inputs)}" for shape in self.shapes]
        also = [f"{_HEAD}\n{document}" for shape in self.shapes if (document := shape.also()) is not None]
        documents = [head, *tables, *made, *also]
        return "\n---\n".join(documents) + "\n"

    def without(self, names: Collection[str]) -> Recipe:
        """The recipe without some shapes, the shapes that depend on them, and sources that no shape reads."""
        gone = set(names)
        kept: list[Shape] = []
        for shape in self.shapes:
            if shape.name in gone or gone.intersection(shape.reads):
                gone.add(shape.name)
            else:
                kept.append(shape)
        read = {name for shape in kept for name in shape.reads}
        return Recipe(tuple(source for source in self.sources if source.name in read), tuple(kept))

    def write(self) -> dict[str, Any]:
        """Its JSON form."""
        return {"sources": [asdict(one) for one in self.sources], "shapes": [SHAPES.write(one) for one in self.shapes]}

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Recipe:
        """The recipe of a JSON form."""
        sources = tuple(Source(**one) for one in written["sources"])
        return cls(sources, tuple(SHAPES.read(one) for one in written["shapes"]))


def _metadata(name: str) -> str:
    return f"metadata: {{name: {name}, labels: {{kaspr.io/app: chaos}}}}"

"""Compares what the shapes show with what they should, at a quiet point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.chaos.recipe import Recipe
from tests.chaos.shapes.shape import Shape
from tests.chaos.tables import Tables
from tests.chaos.topics import FROM_FILES, dropped, lines, recorded

_SHOWN = 5

FINE = {"duplicate key", "null key"}
"""Why rows may be dead letters: others write what they like."""


@dataclass(frozen=True)
class Failure:
    """Something is wrong. Failures of one ``kind`` are the same one."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def judged(recipe: Recipe, tables: Tables, *, runs: bool = False) -> Iterator[Failure]:
    """What is wrong at a quiet point, in the order of the shapes: the first failure may be the cause of others.

    While the application ``runs``, only what is prompt is judged.
    """
    tables.forget()
    for shape in recipe.shapes:
        yield from _of_shape(recipe, shape, tables, runs=runs)
    if FROM_FILES in recipe.topics:
        yield from _of_files(tables)
    for letter in tables.rows("_kaspr_dead_letters"):
        if letter["reason"] not in FINE:
            yield Failure(f"dead letter of {letter['resource']}", f"{letter['reason']}: {letter['detail']}")


def _of_shape(recipe: Recipe, shape: Shape, tables: Tables, *, runs: bool) -> Iterator[Failure]:
    try:
        for claim in shape.claims(recipe.inputs, tables):
            if claim.expected != claim.found and (claim.prompt or not runs):
                yield Failure(shape.name, f"{claim.what}: {_difference(claim.expected, claim.found)}")
    except AssertionError as error:  # what folds channels and feeds says so
        yield Failure(shape.name, str(error))


def _of_files(tables: Tables) -> Iterator[Failure]:
    """Each line of a file is a record, once."""
    wanted = Counter(str(line["id"]) for line in lines(dropped(tables.warehouse), "[!_]*.json"))
    found = Counter(str(record.value["id"]) for record in recorded(tables, FROM_FILES))
    if wanted != found:
        yield Failure(f"topic {FROM_FILES}", f"missing: {wanted - found}; too many: {found - wanted}")


def _difference(expected: dict[str, str], found: dict[str, str]) -> str:
    keys = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
    lines = [f"{key}: {found.get(key, 'nothing')} instead of {expected.get(key, 'nothing')}" for key in keys[:_SHOWN]]
    return "\n  ".join([f"{len(keys)} differ", *lines])

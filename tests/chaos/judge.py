"""Compares the state of the shapes with their naive models, at a quiet point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.chaos.shapes.shape import Recipe, Shape
from tests.chaos.tables import Tables
from tests.chaos.topics import FROM_FILES, input_folder, lines, topic_records

_SHOWN = 5

ALLOWED_REASONS = {"duplicate key", "null key"}
"""Reasons of dead letters that are no failures: other programs may write rows with a duplicate or null key."""


@dataclass(frozen=True)
class Failure:
    """A deviation that was found. Failures of one ``kind`` count as the same failure."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def judged(recipe: Recipe, tables: Tables, *, runs: bool = False) -> Iterator[Failure]:
    """Failures at a quiet point, in the order of the shapes: the first one may be the cause of others.

    While the application ``runs`` continuously, only prompt claims of shapes are checked.
    """
    tables.forget()
    for shape in recipe.shapes.values():
        yield from _shape_failures(recipe, shape, tables, runs=runs)
    if FROM_FILES in recipe.topics:
        yield from _file_failures(tables)
    for letter in tables.rows("_kaspr_dead_letters"):
        if letter["reason"] not in ALLOWED_REASONS:
            yield Failure(f"dead letter of {letter['resource']}", f"{letter['reason']}: {letter['detail']}")


def _shape_failures(recipe: Recipe, shape: Shape, tables: Tables, *, runs: bool) -> Iterator[Failure]:
    try:
        for claim in shape.claims(recipe, tables):
            if claim.expected != claim.found and (claim.prompt or not runs):
                yield Failure(shape.name, f"{claim.what}: {_difference(claim.expected, claim.found)}")
    except AssertionError as error:  # a channel or feed cannot be folded
        yield Failure(shape.name, str(error))
    except LookupError as error:  # a record or row that was never written
        yield Failure(shape.name, f"unknown: {error}")


def _file_failures(tables: Tables) -> Iterator[Failure]:
    """Failures of the topic that is read from files: each line must be one record."""
    wanted = Counter(str(line["id"]) for line in lines(input_folder(tables.warehouse), "[!_]*.json"))
    found = Counter(str(record.value["id"]) for record in topic_records(tables, FROM_FILES))
    if wanted != found:
        yield Failure(f"topic {FROM_FILES}", f"missing: {wanted - found}; too many: {found - wanted}")


def _difference(expected: dict[str, str], found: dict[str, str]) -> str:
    keys = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
    lines = [f"{key}: {found.get(key, 'nothing')} instead of {expected.get(key, 'nothing')}" for key in keys[:_SHOWN]]
    return "\n  ".join([f"{len(keys)} differ", *lines])

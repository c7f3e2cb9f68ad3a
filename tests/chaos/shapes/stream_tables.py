"""Tables made from streams."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.shapes.shape import SHAPES, Claim, Inputs, Shape
from tests.chaos.tables import Tables, Values, key_text, plain, texts
from tests.chaos.topics import EVERY_TOPIC, TOPICS, Record, topic_records

_WINDOW = 10


@dataclass(frozen=True)
class MadeFromTopic(Shape):
    """A resource that computes a table from one topic."""

    topic: str

    @property
    def reads(self) -> Sequence[str]:
        return []

    @property
    def topics(self) -> Sequence[str]:
        return [self.topic]

    @property
    def ref(self) -> str:
        return f"table/{self.name}"

    @classmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> MadeFromTopic:
        return cls(name, dice.choice(EVERY_TOPIC))

    def values(self, tables: Tables) -> Values:
        return tables.made(self.name)

    def claims(self, inputs: Inputs, tables: Tables) -> Iterator[Claim]:
        yield Claim("rows", texts(self.made(topic_records(tables, self.topic))), texts(self.values(tables)))

    @abstractmethod
    def made(self, records: Sequence[Record]) -> Values:
        """The expected rows of the table."""


@SHAPES.add
@dataclass(frozen=True)
class LastOfStream(MadeFromTopic):
    """The last record of each key, as a table."""

    is_plain_table = True

    has_fields = True

    def manifest(self, inputs: Inputs) -> str:
        return f"kind: KasprTable\nspec:\n  name: {self.name}\n  from: {{topic: {self.topic}}}\n  toTable: {{}}"

    def fields(self, inputs: Inputs, value: str) -> str:
        return value

    def made(self, records: Sequence[Record]) -> Values:
        return {record.key: plain(record.value) for record in records if record.key is not None}


@SHAPES.add
@dataclass(frozen=True)
class CountOfStream(MadeFromTopic):
    """The number of records of each group."""

    is_plain_table = True

    def manifest(self, inputs: Inputs) -> str:
        return (
            f"kind: KasprTable\nspec:\n  name: {self.name}\n  from: {{topic: {self.topic}}}\n"
            "  groupBy: {python: \"def group(value): return value['g']\"}\n  count: {}"
        )

    def made(self, records: Sequence[Record]) -> Values:
        return counts_by_group(records)  # records without a key count too: a function gives the group


@SHAPES.add
@dataclass(frozen=True)
class GreatestOfStream(MadeFromTopic):
    """The record with the greatest ``n`` of each key; of several such records the first."""

    is_plain_table = True

    def manifest(self, inputs: Inputs) -> str:
        return (
            f"kind: KasprTable\nspec:\n  name: {self.name}\n  from: {{topic: {self.topic}}}\n"
            "  reduce: {python: \"def greater(a, b): return max(a, b, key=lambda v: v['n'])\"}"
        )

    def made(self, records: Sequence[Record]) -> Values:
        made: dict[str, Any] = {}
        for record in records:
            if record.key is not None and (record.key not in made or record.value["n"] > made[record.key]["n"]):
                made[record.key] = plain(record.value)
        return made


@SHAPES.add
@dataclass(frozen=True)
class CountInWindows(MadeFromTopic):
    """The number of records of each key in each window."""

    @classmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> CountInWindows:
        return cls(name, dice.choice(TOPICS))

    def manifest(self, inputs: Inputs) -> str:
        return (
            f"kind: KasprTable\nspec:\n  name: {self.name}\n  from: {{topic: {self.topic}}}\n  count: {{}}\n"
            f"  window: {{tumbling: {{size: {_WINDOW}s}}, grace: 10000h}}"
        )

    def values(self, tables: Tables) -> Values:
        rows = tables.rows(self.name)
        return {f"{row['key']} at {int(row['window_start'].timestamp())}": plain(row["value"]) for row in rows}

    def made(self, records: Sequence[Record]) -> Values:
        at = (f"{one.key} at {one.at // _WINDOW * _WINDOW}" for one in records if one.key is not None)
        return dict(Counter(at))


def counts_by_group(records: Iterable[Record]) -> Values:
    """The number of records of each group."""
    return dict(Counter(key_text(record.value["g"]) for record in records if record.value["g"] is not None))

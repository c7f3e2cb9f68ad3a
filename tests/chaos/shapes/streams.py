"""Joins of a stream: with a table, with rows that refer to its keys, and with another stream."""

from __future__ import annotations

import json
import random
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.chaos.shapes.shape import SHAPES, Claim, Inputs, Shape
from tests.chaos.tables import Stored, Tables, Values, canonical, key_text, pair, plain
from tests.chaos.topics import POSTED, TOPICS, Record, topic_records

SIDES = ("left", "right")
_WINDOW = 10
# Longer than any history, so that no record is late.
_GRACE = "10000h"


@dataclass(frozen=True)
class StreamJoin(Shape):
    """A stream-valued join whose left side is a topic: its channel is its result."""

    topic: str

    @property
    def ref(self) -> str:
        return f"join/{self.name}"

    @property
    def topics(self) -> Sequence[str]:
        return [self.topic]

    def emitted(self, tables: Tables) -> Stored:
        """Its emissions, in order."""
        return [row for row in tables.appended(f"channel__{self.name}_channel") if row["kind"] == "value"]

    def pairs(self, tables: Tables) -> Counter[str]:
        """The number of times that each pair was emitted."""
        return Counter(canonical(pair(row)) for row in self.emitted(tables))


@dataclass(frozen=True)
class JoinAtArrival(StreamJoin):
    """A join in which each record meets rows of a table as they are when it arrives.

    The step that produces the records reads these rows (``joined_rows``), and notes them.
    """

    right: str

    @property
    def reads(self) -> Sequence[str]:
        return [self.right]

    @abstractmethod
    def joined_rows(self, record: Record, rows: Values) -> list[Any]:
        """The rows that a record is joined with; None stands for null."""

    def claims(self, inputs: Inputs, tables: Tables) -> Iterator[Claim]:
        """The channel has the noted pairs of each record. Records whose note is not ``sure`` are not checked."""
        noted = {note["id"]: note for note in tables.noted(self.name)}
        expected: Counter[str] = Counter()
        found: Counter[str] = Counter()
        for record in topic_records(tables, self.topic):
            note = noted[record.value["id"]]
            if note["sure"]:
                expected.update(canonical(one) for one in note["pairs"])
        for row in self.emitted(tables):
            one = pair(row)
            if noted[one["left"]["id"]]["sure"]:
                found[canonical(one)] += 1
        yield Claim("channel", _counted(expected), _counted(found))


@SHAPES.add
@dataclass(frozen=True)
class StreamTableJoin(JoinAtArrival):
    """Each record meets the row of its key, or of its foreign key."""

    type: Literal["inner", "left"]
    by: Literal["key", "function"]

    weight = 2

    @classmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> StreamTableJoin:
        how: Literal["inner", "left"] = dice.choice(["inner", "left"])
        by: Literal["key", "function"] = dice.choice(["key", "function"])
        return cls(name, dice.choice([*TOPICS, POSTED]), dice.choice(list(inputs.sources)), how, by)

    def manifest(self, inputs: Inputs) -> str:
        by = "  on: key" if self.by == "key" else "  extractor: {python: \"def points_at(value): return value['fk']\"}"
        return (
            f"kind: KasprJoin\nspec:\n  leftStream: {{topic: {self.topic}}}\n  rightTable: {self.right}\n"
            f"  type: {self.type}\n{by}"
        )

    def joined_rows(self, record: Record, rows: Values) -> list[Any]:
        fk = record.value["fk"]
        key = record.key if self.by == "key" else None if fk is None else key_text(fk)
        row = None if key is None else rows.get(key)
        return [] if row is None and self.type == "inner" else [row]


@SHAPES.add
@dataclass(frozen=True)
class PendingJoin(StreamJoin):
    """Each record waits for the row of its key. The joined row is not checked: it may have changed since then."""

    right: str

    @property
    def reads(self) -> Sequence[str]:
        return [self.right]

    @classmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> PendingJoin:
        return cls(name, dice.choice([*TOPICS, POSTED]), dice.choice(list(inputs.sources)))

    def manifest(self, inputs: Inputs) -> str:
        return (
            f"kind: KasprJoin\nspec:\n  leftStream: {{topic: {self.topic}}}\n  rightTable: {self.right}\n"
            f"  type: inner\n  on: key\n  pending: {{ttl: {_GRACE}}}"
        )

    def claims(self, inputs: Inputs, tables: Tables) -> Iterator[Claim]:
        """A record whose row exists was emitted, no record was emitted twice, and records without emission wait."""
        rows = inputs.values(self.right, tables)
        keys = {str(one.value["id"]): one.key for one in topic_records(tables, self.topic) if one.key is not None}
        times = Counter(str(pair(row)["left"]["id"]) for row in self.emitted(tables))
        due = {one for one, key in keys.items() if key in rows}
        yield Claim("channel", dict.fromkeys({*times, *due} & keys.keys(), "1"), _counted(times))
        waiting = {str(plain(row["left"])["id"]) for row in tables.rows(f"waiting__{self.name}")}
        wait = dict.fromkeys(keys.keys() - times.keys(), "waits")
        yield Claim("waiting", wait, dict.fromkeys(waiting, "waits"))


@SHAPES.add
@dataclass(frozen=True)
class RightForeignKeyJoin(JoinAtArrival):
    """Each record meets all rows that refer to its key."""

    @classmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> RightForeignKeyJoin:
        return cls(name, dice.choice([*TOPICS, POSTED]), dice.choice(list(inputs.sources)))

    def manifest(self, inputs: Inputs) -> str:
        return (
            f"kind: KasprJoin\nspec:\n  leftStream: {{topic: {self.topic}}}\n  rightTable: {self.right}\n  type: left\n"
            "  rightExtractor: {python: \"def refers_to(value): return value.get('fk')\"}"
        )

    def joined_rows(self, record: Record, rows: Values) -> list[Any]:
        def refers(row: Any) -> bool:
            return row.get("fk") is not None and key_text(row["fk"]) == record.key

        return [row for row in rows.values() if refers(row)] or [None]


@SHAPES.add
@dataclass(frozen=True)
class StreamStreamJoin(StreamJoin):
    """Records of two streams with equal keys and times near each other.

    Unmatched emissions are not checked: they depend on the batches. As in Kafka Streams, a record whose window is over
    when it is read is emitted unmatched at once, without regard to grace.
    """

    other: str
    type: Literal["inner", "left", "outer"] = "inner"

    @property
    def reads(self) -> Sequence[str]:
        return []

    @property
    def topics(self) -> Sequence[str]:
        return [self.topic, self.other]

    @classmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> StreamStreamJoin:
        topic, other = dice.sample(TOPICS, 2)
        how: Literal["inner", "left", "outer"] = dice.choice(["inner", "left", "outer"])
        return cls(name, topic, other, how)

    def manifest(self, inputs: Inputs) -> str:
        return (
            f"kind: KasprJoin\nspec:\n  leftStream: {{topic: {self.topic}}}\n  rightStream: {{topic: {self.other}}}\n"
            f"  type: {self.type}\n  on: key\n  window: {{before: {_WINDOW}s, after: {_WINDOW}s, grace: {_GRACE}}}"
        )

    def claims(self, inputs: Inputs, tables: Tables) -> Iterator[Claim]:
        lefts, rights = (topic_records(tables, topic) for topic in self.topics)
        expected = Counter(canonical(paired(left.value, right.value)) for left, right in _near(lefts, rights))
        pairs = Counter({one: times for one, times in self.pairs(tables).items() if len(json.loads(one)) == len(SIDES)})
        yield Claim("channel", _counted(expected), _counted(pairs))


def _near(lefts: Iterable[Record], rights: Sequence[Record]) -> Iterator[tuple[Record, Record]]:
    for left in lefts:
        for right in rights:
            if left.key is not None and left.key == right.key and abs(left.at - right.at) <= _WINDOW:
                yield left, right


def paired(left: Any, right: Any) -> Any:
    """Two values as a join pairs them."""
    return pair({"left": left, "right": right})


def _counted(pairs: Counter[str]) -> dict[str, str]:
    return {one: str(times) for one, times in pairs.items()}

"""Joins of a stream: with a table, with rows that refer to its keys, and with another stream."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.shapes.shape import Claim, Recipe, Shape, any_source, function, one_of, shape
from tests.chaos.tables import Stored, Tables, Values, canonical, key_text, pair, plain
from tests.chaos.topics import POSTED, TOPICS, Record, topic_records

_WINDOW = 10
# Longer than any history, so that no record is late.
_GRACE = "10000h"
_any_topic = one_of(*TOPICS, POSTED)


@dataclass(frozen=True)
class StreamJoin(Shape):
    """A stream-valued join whose left side is a topic: its channel is its result."""

    topic: str

    kind = "Join"

    def emitted(self, tables: Tables) -> Stored:
        """Its emissions, in order."""
        return [row for row in tables.appended(f"channel__{self.name}_channel") if row["kind"] == "value"]


@dataclass(frozen=True)
class StreamAndTable(StreamJoin):
    """A join of records with rows of a table."""

    right: str

    def spec(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"leftStream": {"topic": self.topic}, "rightTable": self.right, **self.condition()}

    @abstractmethod
    def condition(self) -> Mapping[str, Any]:
        """The fields of the manifest that say which rows are joined, and how."""


@dataclass(frozen=True)
class JoinAtArrival(StreamAndTable):
    """A join in which each record meets rows of a table as they are when it arrives.

    The step that produces the records reads these rows (``joined_rows``), and notes them.
    """

    @abstractmethod
    def joined_rows(self, record: Record, rows: Values) -> list[Any]:
        """The rows that a record is joined with; None stands for null."""

    def claims(self, recipe: Recipe, tables: Tables) -> Iterator[Claim]:
        """The channel has the noted pairs of each record. Records whose note is not ``sure`` are not checked."""
        noted = {note["id"]: note for note in tables.noted(self.name)}
        sure = {one for one, note in noted.items() if note["sure"]}
        notes = [noted[record.value["id"]] for record in topic_records(tables, self.topic)]
        expected = Counter(canonical(one) for note in notes if note["sure"] for one in note["pairs"])
        pairs = [pair(row) for row in self.emitted(tables)]
        found = Counter(canonical(one) for one in pairs if one["left"]["id"] in sure or one["left"]["id"] not in noted)
        yield Claim("channel", _counted(expected), _counted(found))


@shape(weight=2, topic=_any_topic, right=any_source, type=one_of("inner", "left"), by=one_of("key", "function"))
@dataclass(frozen=True)
class StreamTableJoin(JoinAtArrival):
    """Each record meets the row of its key, or of its foreign key."""

    type: str
    by: str

    def condition(self) -> Mapping[str, Any]:
        by = {"on": "key"} if self.by == "key" else {"extractor": function("value['fk']")}
        return {"type": self.type, **by}

    def joined_rows(self, record: Record, rows: Values) -> list[Any]:
        fk = record.value["fk"]
        key = record.key if self.by == "key" else None if fk is None else key_text(fk)
        row = None if key is None else rows.get(key)
        return [] if row is None and self.type == "inner" else [row]


@shape(topic=_any_topic, right=any_source)
class PendingJoin(StreamAndTable):
    """Each record waits for the row of its key. The joined row is not checked: it may have changed since then."""

    def condition(self) -> Mapping[str, Any]:
        return {"type": "inner", "on": "key", "pending": {"ttl": _GRACE}}

    def claims(self, recipe: Recipe, tables: Tables) -> Iterator[Claim]:
        """A record whose row exists was emitted, no record was emitted twice, and records without emission wait."""
        rows = recipe.values(self.right, tables)
        keys = {str(one.value["id"]): one.key for one in topic_records(tables, self.topic) if one.key is not None}
        times = Counter(str(pair(row)["left"]["id"]) for row in self.emitted(tables))
        due = {one for one, key in keys.items() if key in rows}
        yield Claim("channel", dict.fromkeys({*times, *due} & keys.keys(), "1"), _counted(times))
        waiting = {str(plain(row["left"])["id"]) for row in tables.rows(f"waiting__{self.name}")}
        wait = dict.fromkeys(keys.keys() - times.keys(), "waits")
        yield Claim("waiting", wait, dict.fromkeys(waiting, "waits"))


@shape(topic=_any_topic, right=any_source)
class RightForeignKeyJoin(JoinAtArrival):
    """Each record meets all rows that refer to its key."""

    def condition(self) -> Mapping[str, Any]:
        return {"type": "left", "rightExtractor": function("value.get('fk')")}

    def joined_rows(self, record: Record, rows: Values) -> list[Any]:
        def refers(row: Any) -> bool:
            return row.get("fk") is not None and key_text(row["fk"]) == record.key

        return [row for row in rows.values() if refers(row)] or [None]


@shape(topic=one_of(*TOPICS), type=one_of("inner", "left", "outer"))
@dataclass(frozen=True)
class StreamStreamJoin(StreamJoin):
    """Records of two streams with equal keys and times near each other.

    Unmatched emissions are not checked: they depend on the batches. As in Kafka Streams, a record whose window is over
    when it is read is emitted unmatched at once, without regard to grace.
    """

    type: str

    @property
    def topics(self) -> Sequence[str]:
        return TOPICS if self.topic == TOPICS[0] else TOPICS[::-1]

    def spec(self, recipe: Recipe) -> Mapping[str, Any]:
        left, right = ({"topic": topic} for topic in self.topics)
        window = {"before": f"{_WINDOW}s", "after": f"{_WINDOW}s", "grace": _GRACE}
        return {"leftStream": left, "rightStream": right, "type": self.type, "on": "key", "window": window}

    def claims(self, recipe: Recipe, tables: Tables) -> Iterator[Claim]:
        lefts, rights = (topic_records(tables, topic) for topic in self.topics)
        expected = Counter(canonical(paired(left.value, right.value)) for left, right in _near(lefts, rights))
        pairs = [pair(row) for row in self.emitted(tables)]
        matched = Counter(canonical(one) for one in pairs if one.keys() == {"left", "right"})
        yield Claim("channel", _counted(expected), _counted(matched))


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

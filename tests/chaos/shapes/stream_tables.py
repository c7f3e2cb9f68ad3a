"""Tables made from streams."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.shapes.shape import Claim, Recipe, Shape, function, one_of, shape
from tests.chaos.tables import Tables, Values, key_text, plain, texts
from tests.chaos.topics import EVERY_TOPIC, TOPICS, Record, topic_records

_WINDOW = 10


@dataclass(frozen=True)
class MadeFromTopic(Shape):
    """A resource that computes a table from one topic."""

    topic: str

    kind = "Table"

    def spec(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"from": {"topic": self.topic}, **self.operation()}

    def claims(self, recipe: Recipe, tables: Tables) -> Iterator[Claim]:
        yield Claim("rows", texts(self.made(topic_records(tables, self.topic))), texts(self.values(tables)))

    def operation(self) -> Mapping[str, Any]:
        """The aggregation in the manifest."""
        raise NotImplementedError

    @abstractmethod
    def made(self, records: Sequence[Record]) -> Values:
        """The expected rows of the table."""


@shape(topic=one_of(*EVERY_TOPIC))
class LastOfStream(MadeFromTopic):
    """The last record of each key, as a table."""

    is_plain_table = True
    has_fields = True

    def operation(self) -> Mapping[str, Any]:
        return {"toTable": {}}

    def fields(self, recipe: Recipe, value: str) -> str:
        return value

    def made(self, records: Sequence[Record]) -> Values:
        return {record.key: plain(record.value) for record in records if record.key is not None}


@shape(topic=one_of(*EVERY_TOPIC))
class CountOfStream(MadeFromTopic):
    """The number of records of each group."""

    is_plain_table = True

    def operation(self) -> Mapping[str, Any]:
        return {"groupBy": function("value['g']"), "count": {}}

    def made(self, records: Sequence[Record]) -> Values:
        return counts_by_group(records)  # records without a key count too: a function gives the group


@shape(topic=one_of(*EVERY_TOPIC))
class GreatestOfStream(MadeFromTopic):
    """The record with the greatest ``n`` of each key; of several such records the first."""

    is_plain_table = True

    def operation(self) -> Mapping[str, Any]:
        return {"reduce": function("max(a, b, key=lambda v: v['n'])", "a, b")}

    def made(self, records: Sequence[Record]) -> Values:
        made: dict[str, Any] = {}
        for record in records:
            if record.key is not None and (record.key not in made or record.value["n"] > made[record.key]["n"]):
                made[record.key] = plain(record.value)
        return made


@shape(topic=one_of(*TOPICS))
class CountInWindows(MadeFromTopic):
    """The number of records of each key in each window."""

    def operation(self) -> Mapping[str, Any]:
        return {"count": {}, "window": {"tumbling": {"size": f"{_WINDOW}s"}, "grace": "10000h"}}

    def values(self, tables: Tables) -> Values:
        rows = tables.rows(self.name)
        return {f"{row['key']} at {int(row['window_start'].timestamp())}": plain(row["value"]) for row in rows}

    def made(self, records: Sequence[Record]) -> Values:
        at = (f"{one.key} at {one.at // _WINDOW * _WINDOW}" for one in records if one.key is not None)
        return dict(Counter(at))


def counts_by_group(records: Iterable[Record]) -> Values:
    """The number of records of each group."""
    return dict(Counter(key_text(record.value["g"]) for record in records if record.value["g"] is not None))

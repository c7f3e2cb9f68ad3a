"""Agents: one counts in a table, the others send on the values that they read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.shapes.shape import Claim, Recipe, Shape, any_shape, function, one_of, shape
from tests.chaos.shapes.stream_tables import MadeFromTopic, counts_by_group
from tests.chaos.shapes.table_joins import TableJoin
from tests.chaos.tables import Tables, Values, canonical, pair, plain, texts
from tests.chaos.topics import EVERY_TOPIC, Record, lines, topic_records

_MIDNIGHT = "T00:00:00"
_COUNT = """\
def count(value, counts):
    if value['g'] is not None:
        counts[value['g']] = counts.get(value['g'], 0) + 1"""


@shape(topic=one_of(*EVERY_TOPIC))
class CountingAgent(MadeFromTopic):
    """An agent that counts the records of each group in a table of its own."""

    kind = "Agent"

    def spec(self, recipe: Recipe) -> Mapping[str, Any]:
        tables = [{"name": self.own_tables[0], "paramName": "counts"}]
        return _agent({"topic": {"name": self.topic}}, {"tables": tables, "map": {"python": _COUNT}})

    @property
    def own_tables(self) -> Sequence[str]:
        return [f"{self.name}-counts"]

    def values(self, tables: Tables) -> Values:
        return tables.made(f"{self.name}_counts")

    def made(self, records: Sequence[Record]) -> Values:
        return counts_by_group(records)


@dataclass(frozen=True)
class _ForwardingAgent(Shape):
    """An agent without tables that sends on each value that it reads, once and in order."""

    kind = "Agent"

    def spec(self, recipe: Recipe) -> Mapping[str, Any]:
        output = {"output": {"topics": [{"name": f"{self.name}-out"}]}}
        return {**_agent(self.input(), {"map": function("{'passed': value}")}), **output}

    def claims(self, recipe: Recipe, tables: Tables) -> Iterator[Claim]:
        sent = [record.value["passed"] for record in topic_records(tables, f"{self.name}_out")]
        yield Claim("topic", _numbered(self.read(tables)), _numbered(sent))

    @abstractmethod
    def input(self) -> Mapping[str, Any]:
        """Its input in the manifest."""

    @abstractmethod
    def read(self, tables: Tables) -> list[Any]:
        """The values of its input, in order."""


@shape(topic=one_of(*EVERY_TOPIC))
@dataclass(frozen=True)
class CopyingAgent(_ForwardingAgent):
    """An agent that reads a topic. Its output topic is bound to files."""

    topic: str

    def bindings(self, warehouse: Path) -> Mapping[str, Any]:
        return {f"{self.name}-out": {"files": {"path": str(self._files(warehouse)), "format": "json"}}}

    def input(self) -> Mapping[str, Any]:
        return {"topic": {"name": self.topic}}

    def read(self, tables: Tables) -> list[Any]:
        return [record.value for record in topic_records(tables, self.topic)]

    def claims(self, recipe: Recipe, tables: Tables) -> Iterator[Claim]:
        """Also: each record is exactly one line of the files."""
        yield from super().claims(recipe, tables)
        written = [line["value"]["passed"] for line in lines(self._files(tables.warehouse), "batch=*/part-*")]
        read, found = (_numbered(sorted(values, key=canonical)) for values in (self.read(tables), written))
        yield Claim("files", read, found, prompt=False)

    def _files(self, warehouse: Path) -> Path:
        return warehouse.parent / "others" / self.name


@shape(join=any_shape(lambda one: isinstance(one, TableJoin)))
@dataclass(frozen=True)
class ChannelAgent(_ForwardingAgent):
    """An agent that reads the channel of a join of tables."""

    join: str

    def input(self) -> Mapping[str, Any]:
        return {"channel": {"name": f"{self.join}-channel"}}

    def read(self, tables: Tables) -> list[Any]:
        rows = tables.appended(f"channel__{self.join}_channel")
        return [pair(row) for row in rows if row["kind"] == "value"]


def _numbered(values: Sequence[Any]) -> dict[str, str]:
    """Values as text by their position. Agents send a date as its midnight, which is made a date again."""
    numbered = texts((f"{number:06}", plain(value)) for number, value in enumerate(values))
    return {number: value.replace(_MIDNIGHT, "") for number, value in numbered.items()}


def _agent(source: Mapping[str, Any], operation: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "input": source,
        "processors": {"pipeline": ["work"], "operations": [{"name": "work", **operation}]},
    }

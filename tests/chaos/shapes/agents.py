"""Agents: one counts in a table, the others send on the values that they read."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.shapes.shape import SHAPES, Claim, Inputs, Shape
from tests.chaos.shapes.stream_tables import MadeFromTopic, counts_by_group
from tests.chaos.shapes.table_joins import TableJoin
from tests.chaos.tables import Tables, Values, canonical, pair, plain, texts
from tests.chaos.topics import EVERY_TOPIC, Record, lines, topic_records

_MIDNIGHT = "T00:00:00"


@SHAPES.add
@dataclass(frozen=True)
class CountingAgent(MadeFromTopic):
    """An agent that counts the records of each group in a table of its own."""

    @property
    def ref(self) -> str:
        return f"agent/{self.name}"

    def manifest(self, inputs: Inputs) -> str:
        return _agent(
            f"topic: {{name: {self.topic}}}",
            f"      tables: [{{name: {self.name}-counts, paramName: counts}}]\n"
            "      map:\n        python: |\n          def count(value, counts):\n"
            "              if value['g'] is not None:\n"
            "                  counts[value['g']] = counts.get(value['g'], 0) + 1",
        )

    def also(self) -> str:
        return f"kind: KasprTable\nmetadata: {{name: {self.name}-counts, labels: {{kaspr.io/app: chaos}}}}\nspec: {{}}"

    def values(self, tables: Tables) -> Values:
        return tables.made(f"{self.name}_counts")

    def made(self, records: Sequence[Record]) -> Values:
        return counts_by_group(records)


@dataclass(frozen=True)
class _ForwardingAgent(Shape):
    """An agent without tables that sends on each value that it reads, once and in order."""

    @property
    def ref(self) -> str:
        return f"agent/{self.name}"

    def manifest(self, inputs: Inputs) -> str:
        operation = "      map: {python: \"def pass_on(value): return {'passed': value}\"}"
        return _agent(self.input(), operation, f"  output:\n    topics: [{{name: {self.name}-out}}]\n")

    def claims(self, inputs: Inputs, tables: Tables) -> Iterator[Claim]:
        sent = [record.value["passed"] for record in topic_records(tables, f"{self.name}_out")]
        yield Claim("topic", _numbered(self.read(inputs, tables)), _numbered(sent))

    def input(self) -> str:
        """Its input, as YAML in one line."""
        raise NotImplementedError

    def read(self, inputs: Inputs, tables: Tables) -> list[Any]:
        """The values of its input, in order."""
        raise NotImplementedError


@SHAPES.add
@dataclass(frozen=True)
class CopyingAgent(_ForwardingAgent):
    """An agent that reads a topic. Its output topic is bound to files."""

    topic: str

    @property
    def reads(self) -> Sequence[str]:
        return []

    @property
    def topics(self) -> Sequence[str]:
        return [self.topic]

    @classmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> CopyingAgent:
        return cls(name, dice.choice(EVERY_TOPIC))

    def binding(self, others: Path) -> str:
        return f"{self.name}-out: {{files: {{path: {others / self.name}, format: json}}}}"

    def input(self) -> str:
        return f"topic: {{name: {self.topic}}}"

    def read(self, inputs: Inputs, tables: Tables) -> list[Any]:
        return [record.value for record in topic_records(tables, self.topic)]

    def claims(self, inputs: Inputs, tables: Tables) -> Iterator[Claim]:
        """Also: each record is exactly one line of the files."""
        yield from super().claims(inputs, tables)
        folder = tables.warehouse.parent / "others" / self.name
        written = [line["value"]["passed"] for line in lines(folder, "batch=*/part-*")]
        read = self.read(inputs, tables)
        yield Claim(
            "files", _numbered(sorted(read, key=canonical)), _numbered(sorted(written, key=canonical)), prompt=False
        )


@SHAPES.add
@dataclass(frozen=True)
class ChannelAgent(_ForwardingAgent):
    """An agent that reads the channel of a join of tables."""

    join: str

    @property
    def reads(self) -> Sequence[str]:
        return [self.join]

    @classmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> ChannelAgent | None:
        joins = [shape.name for shape in inputs.shapes.values() if isinstance(shape, TableJoin)]
        return cls(name, dice.choice(joins)) if joins else None

    def input(self) -> str:
        return f"channel: {{name: {self.join}-channel}}"

    def read(self, inputs: Inputs, tables: Tables) -> list[Any]:
        rows = tables.appended(f"channel__{self.join}_channel")
        return [pair(row) for row in rows if row["kind"] == "value"]


def _numbered(values: Sequence[Any]) -> dict[str, str]:
    """Values as text by their position. Agents send a date as its midnight, which is made a date again."""
    numbered = texts((f"{number:06}", plain(value)) for number, value in enumerate(values))
    return {number: value.replace(_MIDNIGHT, "") for number, value in numbered.items()}


def _agent(input_: str, operation: str, output: str = "") -> str:
    return (
        f"kind: KasprAgent\nspec:\n  input: {{{input_}}}\n{output}"
        f"  processors:\n    pipeline: [work]\n    operations:\n    - name: work\n{operation}"
    )

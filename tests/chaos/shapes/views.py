"""Web views: one puts records on a topic, one shows a table. A step judges the answers of the second."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.shapes.shape import SHAPES, Claim, Inputs, Shape
from tests.chaos.tables import Tables, Values, key_text, plain
from tests.chaos.topics import POSTED, topic_records


@dataclass(frozen=True)
class View(Shape):
    """A web view. It is served, and no run includes it."""

    runs = False

    @property
    def ref(self) -> str:
        return f"webview/{self.name}"


@SHAPES.add
@dataclass(frozen=True)
class PostingView(View):
    """A web view that puts the posted records on its topic before it answers."""

    @property
    def reads(self) -> Sequence[str]:
        return []

    @property
    def topics(self) -> Sequence[str]:
        return [POSTED]

    @classmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> PostingView:
        return cls(name)

    def manifest(self, inputs: Inputs) -> str:
        return f"""\
kind: KasprWebView
spec:
  name: {self.name}
  request: {{method: POST, path: /{self.name}}}
  processors:
    pipeline: [each, send]
    operations:
    - name: each
      map:
        python: |
          async def each(request):
              for record in await request.json():
                  yield record
    - name: send
      topicSend:
        name: {POSTED}
        keySelector: {{python: "def key(record): return record['key']"}}
        valueSelector: {{python: "def value(record): return record['value']"}}"""

    def claims(self, inputs: Inputs, tables: Tables) -> Iterator[Claim]:
        """No record is on the topic twice."""
        ids = [record.value["id"] for record in topic_records(tables, POSTED)]
        yield Claim("records of the topic", {"count": str(len(set(ids)))}, {"count": str(len(ids))})


@SHAPES.add
@dataclass(frozen=True)
class ReadingView(View):
    """A web view of all rows of a table, each with the value that a look-up of its key returns."""

    table: str

    @property
    def reads(self) -> Sequence[str]:
        return [self.table]

    @classmethod
    def draw(cls, dice: random.Random, name: str, inputs: Inputs) -> ReadingView:
        made = [shape.name for shape in inputs.shapes.values() if shape.is_plain_table]
        return cls(name, dice.choice([*inputs.sources, *made]))

    def manifest(self, inputs: Inputs) -> str:
        return f"""\
kind: KasprWebView
spec:
  name: {self.name}
  request: {{method: GET, path: /{self.name}}}
  processors:
    pipeline: [show]
    operations:
    - name: show
      tables: [{{name: {self.table}, paramName: rows}}]
      map:
        python: |
          def show(request, rows):
              return [[key, value, rows.get(key)] for key, value in rows.items()]"""

    def claims(self, inputs: Inputs, tables: Tables) -> Iterator[Claim]:
        yield from ()

    def shown(self, inputs: Inputs, answer: list[Any]) -> Values:
        """The rows of an answer. If the look-up of a key returned another value, the row has both values.

        In the answer, a DECIMAL key is text.
        """
        source = inputs.sources.get(self.table)
        is_number = source is not None and source.keys == "number"

        def row(value: Any) -> Any:
            decimal = is_number and isinstance(value, dict) and isinstance(value.get("id"), str)
            return plain({**value, "id": int(value["id"])} if decimal else value)

        return {
            key_text(int(key) if is_number else key): row(value) if value == alone else [row(value), row(alone)]
            for key, value, alone in answer
        }

"""Web views: one puts records on a topic, one shows a table. A step judges the answers of the second."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.shapes.shape import Claim, Recipe, Shape, function, shape
from tests.chaos.tables import Tables, Values, key_text, plain
from tests.chaos.topics import POSTED, topic_records

_EACH = """\
async def each(request):
    for record in await request.json():
        yield record"""


@shape()
class PostingView(Shape):
    """A web view that puts the posted records on its topic before it answers."""

    kind = "WebView"

    @property
    def topics(self) -> Sequence[str]:
        return [POSTED]

    def spec(self, recipe: Recipe) -> Mapping[str, Any]:
        key, value = (function(f"record['{name}']", "record") for name in ("key", "value"))
        send = {"name": POSTED, "keySelector": key, "valueSelector": value}
        operations = [{"name": "each", "map": {"python": _EACH}}, {"name": "send", "topicSend": send}]
        return _view(self.name, "POST", operations)

    def claims(self, recipe: Recipe, tables: Tables) -> Iterator[Claim]:
        """No record is on the topic twice."""
        ids = [record.value["id"] for record in topic_records(tables, POSTED)]
        yield Claim("records of the topic", {"count": str(len(set(ids)))}, {"count": str(len(ids))})


def _any_plain_table(dice: random.Random, recipe: Recipe) -> str:
    made = [name for name, shape in recipe.shapes.items() if shape.is_plain_table]
    return dice.choice([*recipe.sources, *made])


@shape(table=_any_plain_table)
@dataclass(frozen=True)
class ReadingView(Shape):
    """A web view of all rows of a table, each with the value that a look-up of its key returns."""

    table: str

    kind = "WebView"

    def spec(self, recipe: Recipe) -> Mapping[str, Any]:
        rows = function("[[key, value, rows.get(key)] for key, value in rows.items()]", "request, rows")
        tables = [{"name": self.table, "paramName": "rows"}]
        return _view(self.name, "GET", [{"name": "show", "tables": tables, "map": rows}])

    def claims(self, recipe: Recipe, tables: Tables) -> Iterator[Claim]:
        yield from ()

    def shown(self, recipe: Recipe, answer: list[Any]) -> Values:
        """The rows of an answer. If the look-up of a key returned another value, the row has both values.

        In the answer, a DECIMAL key is text.
        """
        source = recipe.sources.get(self.table)
        is_number = source is not None and source.keys == "number"

        def row(value: Any) -> Any:
            decimal = is_number and isinstance(value, dict) and isinstance(value.get("id"), str)
            return plain({**value, "id": int(value["id"])} if decimal else value)

        return {
            key_text(int(key) if is_number else key): row(value) if value == alone else [row(value), row(alone)]
            for key, value, alone in answer
        }


def _view(name: str, method: str, operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "request": {"method": method, "path": f"/{name}"},
        "processors": {"pipeline": [operation["name"] for operation in operations], "operations": operations},
    }

"""The results of joins as Python objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kaspr_delta.plan.definition import SerializerName, Serializers
from kaspr_delta.plan.join_plans import Spelling
from kaspr_delta.serde.table_text import TableText


def json_columns(spelling: Spelling) -> tuple[str, ...]:
    """Which of the columns key, left and right of a join's results hold JSON."""
    serializers = {"key": spelling.key, "left": spelling.left, "right": spelling.right}
    return tuple(column for column, serializer in serializers.items() if serializer == "json")


@dataclass(frozen=True, slots=True)
class JoinedText:
    """How the keys and values of a join's results are read."""

    spelling: Spelling

    def key(self, text: str | None) -> Any:
        """The key that a text stands for; a record without a key may come out of a join of streams."""
        return None if text is None else TableText(Serializers(self.spelling.key, "json")).key_object(text)

    def value(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The pair that the columns ``left`` and ``right`` stand for; the side that is missing is None."""
        return {
            "left": self._value(row["left"], self.spelling.left),
            "right": self._value(row["right"], self.spelling.right),
        }

    def _value(self, text: str | None, serializer: SerializerName) -> Any:
        return None if text is None else TableText(Serializers(self.spelling.key, serializer)).value_object(text)

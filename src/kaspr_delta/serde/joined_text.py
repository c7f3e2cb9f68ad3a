"""The results of joins as Python objects, and the columns of rows that hold JSON text or the key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinPlan, StreamStreamJoinPlan, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef, Serializers
from kaspr_delta.serde.json_text import parse
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.serde.typed_text import text_of
from kaspr_delta.serde.typed_values import column_text


def json_columns(join: JoinPlan, application: Plan) -> tuple[str, ...]:
    """The columns among key, left and right of a join's channel and result that hold JSON text."""
    spelled = join.spelling
    left, right = application.column_types(join)
    serializers = {"key": spelled.key, "left": left or spelled.left, "right": right or spelled.right}
    return tuple(column for column, serializer in serializers.items() if serializer == "json")


def json_of(plan: Plan, ref: ResourceRef) -> tuple[str, ...]:
    """The columns of JSON text in the rows of a table, in the results of a join or in the records of a topic."""
    join = plan.join(ref.name) if ref.kind == "join" else None
    if join is not None:
        return json_columns(join, plan)
    one = plan.table(ref.name) if ref.kind == "table" else plan.topic(ref.name)
    return () if one is None or getattr(one, "typed", None) is not None else one.serializers.json_columns


def key_columns(plan: Plan, ref: ResourceRef) -> tuple[str, ...]:
    """The columns of the key in the rows of a table, or of a join's result."""
    table = plan.table(ref.name) if ref.kind == "table" else None
    return table.typed.key if table is not None and table.typed is not None else ("key",)


def sides_as_text(rows: pa.Table, join: JoinPlan, application: Plan) -> pa.Table:
    """Rows of a join's channel or result with left and right as text, as ``typed_columns.as_text`` makes them."""
    for side, of in zip(("left", "right"), application.column_types(join), strict=True):
        if of is None:  # it is text
            continue
        texts = pa.array(column_text(of, rows[side].to_pylist()), pa.string())
        rows = rows.set_column(rows.schema.get_field_index(side), side, texts)
    return rows


@dataclass(frozen=True, slots=True)
class JoinedText:
    """The text forms of the keys, left values and right values of a join's results."""

    keys: TableText
    left: TableText
    right: TableText

    @classmethod
    def of(cls, join: JoinPlan, application: Plan) -> JoinedText:
        """The text forms of the results of a join of an application."""
        spelled = join.spelling
        left, right = (TableText(Serializers(spelled.key, value)) for value in (spelled.left, spelled.right))
        keys = left
        if not isinstance(join, StreamStreamJoinPlan):
            table = application.table_or_result(join.right)
            right = text_of(table) if table.has_types else right
        if isinstance(join, TableTableJoinPlan) and (table := application.table_or_result(join.left)).has_types:
            keys = left = text_of(table)
        return cls(keys, left, right)

    def key(self, text: str | None) -> Any:
        """The key that a text stands for. A join of streams may emit a record without a key."""
        return None if text is None else self.keys.key_object(text)

    def value(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The pair that the texts in ``left`` and ``right`` stand for; a missing side is None."""
        left, right = row["left"], row["right"]
        return {
            "left": None if left is None else self.left.value_object(left),
            "right": None if right is None else self.right.value_object(right),
        }

    def shown(self, row: Mapping[str, Any]) -> str:
        """The same pair as one JSON text for display; bytes are in base64."""
        return f'{{"left":{_piece(self.left, row["left"])},"right":{_piece(self.right, row["right"])}}}'


def _piece(side: TableText, text: str | None) -> str:
    """One side as a piece of JSON. Bytes are in quotes, and so is text that SQL wrote and that is not JSON."""
    if text is None:
        return "null"
    try:
        parse(text)
    except SerializationError:
        return json.dumps(text)
    return json.dumps(text) if side.serializers.value == "raw" else text

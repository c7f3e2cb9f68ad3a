"""Keys and rows of typed tables as JSON text, and their order.

The text holds every value exactly (see ``typed_values``). Spark writes the same text from the columns, and reads it
(see ``engine.rows.typed_columns``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.serde import json_text
from kaspr_delta.serde.files.typed import of_json
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.serde.typed_values import key_text, read, shown, written
from kaspr_delta.spec.ddl import Type


@dataclass(frozen=True, slots=True)
class TypedText(TableText):
    """The text forms of a typed table's keys and rows. A key of several columns is a list, in Python a tuple."""

    typed: TypedPlan

    def key(self, key: Any) -> str:
        """The text under which a key is looked up: the value of each column, independent of the width of its type."""
        types = self.typed.key_types
        if len(types) == 1:
            return key_text(types[0], key, self.typed.key[0])
        if not isinstance(key, list | tuple) or len(key) != len(types):
            msg = (
                f"the key has {len(types)} columns, {', '.join(self.typed.key)}, and {shown(key)} is no list of as many"
            )
            raise SerializationError(msg)
        parts = map(key_text, types, key, self.typed.key)
        return f"[{','.join(parts)}]"

    def foreign_key(self, key: Any) -> str | None:
        """As of other tables; None for a key of several columns if one of them has no value: it belongs to no row."""
        if isinstance(key, list | tuple) and any(part is None for part in key):
            return None
        return self.key(key)

    def of_line(self, key: Any) -> Any:
        types, names = self.typed.key_types, self.typed.key
        if len(types) == 1:
            return of_json(types[0], key, names[0])
        if not isinstance(key, list) or len(key) != len(types):
            return key  # ``key`` refuses it
        return [of_json(*one) for one in zip(types, key, names, strict=True)]

    def event_key(self, text: str) -> Any:
        types = self.typed.key_types
        parsed = json_text.parse(text)
        if len(types) == 1:
            return read(types[0], parsed)
        if not isinstance(parsed, list) or len(parsed) != len(types):
            raise SerializationError(f"{text} is no key of the columns {', '.join(self.typed.key)}")
        return [read(one, part) for one, part in zip(types, parsed, strict=True)]

    def value(self, value: Any) -> str | None:
        """The text of a row; None for None. Columns that the value does not have are null."""
        return None if value is None else json_text.value_text(written(self.typed.row, value, "the row"))

    def row(self, key: Any, value: Any) -> str | None:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            return self.value(value)  # raises SerializationError
        parts = [key] if len(self.typed.key) == 1 else key
        return self.value({**value, **dict(zip(self.typed.key, parts, strict=True))})

    def value_object(self, text: str) -> Any:
        return self.of_json(json_text.parse(text))

    def of_json(self, parsed: Any) -> Any:
        return read(self.typed.row, parsed)

    def is_key(self, text: str) -> bool:
        try:
            return self.key(self.event_key(text)) == text
        except SerializationError:
            return False


@dataclass(frozen=True, slots=True)
class PairText(TableText):
    """The text forms of a join's result that is used as a table. Its keys are the keys of the left side."""

    left: TableText
    right: TableText
    # The type of the selected columns, if the result shows columns instead of the pair.
    selected: Type | None = None

    def key(self, key: Any) -> str:
        return self.left.key(key)

    def foreign_key(self, key: Any) -> str | None:
        return self.left.foreign_key(key)

    def of_line(self, key: Any) -> Any:
        return self.left.of_line(key)

    def event_key(self, text: str) -> Any:
        return self.left.event_key(text)

    def is_key(self, text: str) -> bool:
        return self.left.is_key(text)

    def value_object(self, text: str) -> Any:
        return self.of_json(json_text.parse(text))

    def of_json(self, parsed: Any) -> Any:
        if self.selected is not None:
            return read(self.selected, parsed)
        sides = (("left", self.left), ("right", self.right))
        return {name: None if parsed[name] is None else side.of_json(parsed[name]) for name, side in sides}


def text_of(plan: TablePlan) -> TableText:
    """The text forms of a table's keys and rows."""
    if plan.joined is not None and plan.has_types:
        left, right = map(text_of, plan.joined)
        return PairText(plan.serializers, left, right, plan.typed.row if plan.typed else None)
    return TypedText(plan.serializers, plan.typed) if plan.typed else TableText(plan.serializers)


def ordered(of: Type, value: Any) -> Any:
    """A sort key that orders values of a type, as functions see them, in the order of Spark: null before everything.

    Spark does not compare maps: they are compared as lists of their entries, the least key first (see
    ``typed_columns.comparable``).

    >>> ordered(Type("INT"), None) < ordered(Type("INT"), -1)
    True
    """
    if value is None:
        return (False,)
    match of.name:
        case "STRUCT":
            return True, tuple(ordered(column.type, value[column.name]) for column in of.fields)
        case "ARRAY":
            return True, tuple(ordered(of.inner[0], item) for item in value)
        case "MAP":
            return True, tuple(sorted((key, ordered(of.inner[1], item)) for key, item in value.items()))
        case "FLOAT" | "DOUBLE":
            return (True, math.inf, True) if math.isnan(value) else (True, value, False)  # NaN is the greatest
        case _:
            return True, value

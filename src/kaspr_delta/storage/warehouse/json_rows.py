"""Rows as JSON that Spark's SQL writes: answers of the Statement Execution API have no microseconds."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.typed_values import SPARK_FORMATS, read
from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.page_reads import Columns
from kaspr_delta.storage.spark.sql_text import literal

_OPTIONS = ", ".join(
    literal(text) for option in {**SPARK_FORMATS, "ignoreNullFields": "false"}.items() for text in option
)


def json_of(struct: str) -> str:
    """The SQL for a struct as JSON."""
    return f"to_json({struct}, map({_OPTIONS}))"


def row_of(columns: Columns, text: str) -> dict[str, Any]:
    """The row in such JSON, with Python values."""
    values = json.loads(text, parse_float=Decimal)
    return {name: _value(kind, values.get(name)) for name, kind in columns.items()}


def _value(kind: Type, value: Any) -> Any:
    if kind.name == "STRUCT" and value is not None:
        return {column.name: _value(column.type, value.get(column.name)) for column in kind.fields}
    try:
        return read(kind, value)
    except SerializationError:  # of a type that no column of this package has
        return value

"""Rows of a page as a file: CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet

from kaspr_delta.api.frames import table_of
from kaspr_delta.serde.json_text import value_text
from kaspr_delta.serde.typed_values import plain_json
from kaspr_delta.serde.unfolded import cell_text
from kaspr_delta.web.answer import JSON, Answer

Format = Literal["csv", "json", "parquet"]


def download(rows: Sequence[tuple[dict[str, Any], dict[str, Any]]], form: Format, name: str) -> Answer:
    """Rows as a file to save. Each row is given with its unfolded columns, for CSV and Parquet, and as it is."""
    unfolded = [flat for flat, _ in rows]
    match form:
        case "csv":
            kind, body = "text/csv; charset=utf-8", _csv(unfolded)
        case "json":
            kind, body = JSON, value_text([plain_json(row) for _, row in rows]).encode()
        case "parquet":
            kind, body = "application/vnd.apache.parquet", _parquet(unfolded)
    file = re.sub(r"[^\w.-]", "-", name, flags=re.ASCII)
    headers = (
        ("content-type", kind),
        ("content-disposition", f'attachment; filename="{file}.{form}"'),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
    )
    return Answer(200, headers, body)


def _csv(rows: Sequence[dict[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    for row in rows[:1]:
        writer.writerow(row)
    writer.writerows([value if isinstance(value, str) else cell_text(value) for value in row.values()] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def _parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    columns = {name: [row[name] for row in rows] for name in next(iter(rows), {})}
    table = table_of(columns)
    for place, one in enumerate(table.schema):
        if _is_empty(one.type):
            texts = [None if value is None else value_text(plain_json(value)) for value in columns[one.name]]
            table = table.set_column(place, one.name, pa.array(texts, pa.string()))
    data = io.BytesIO()
    pyarrow.parquet.write_table(table, data)
    return data.getvalue()


def _is_empty(kind: pa.DataType) -> bool:
    """Whether values of a type hold objects without fields, which Parquet has not."""
    if pa.types.is_struct(kind):
        return not kind.num_fields or any(_is_empty(kind.field(number).type) for number in range(kind.num_fields))
    return pa.types.is_list(kind) and _is_empty(kind.value_type)

"""Rows of a page as a file: CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any, Literal

from pyarrow.parquet import write_table

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
    data = io.BytesIO()
    write_table(table_of({name: [row[name] for row in rows] for name in next(iter(rows), {})}), data)
    return data.getvalue()

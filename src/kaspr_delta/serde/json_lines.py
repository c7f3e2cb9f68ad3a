"""JSON lines, for people and programs that read lines: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, BinaryIO

from kaspr_delta.serde.files.read import file_rows
from kaspr_delta.serde.files.rows import FileRow, without_problems
from kaspr_delta.serde.long_fraction import ExactEncoder, holds_long_fraction


def json_line(record: dict[str, Any]) -> str:
    """One record as a line of JSON: bytes as text, datetimes in UTC, text that has no UTF-8 escaped."""
    how = ExactEncoder if holds_long_fraction(record) else None
    line = json.dumps(record, cls=how, default=_as_text, ensure_ascii=False, separators=(",", ":"))
    try:
        line.encode()
    except UnicodeEncodeError:
        return json.dumps(record, cls=how, default=_as_text, separators=(",", ":"))
    return line


def objects_of(data: BinaryIO, name: str) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines called ``name``, read as all files are (``serde.files``).

    Raises UsageError, with the number of each line, for lines that are no JSON object.
    """
    for row in without_problems(map(_object, file_rows(data, name, "json"))):
        yield row.cells


def _object(row: FileRow) -> FileRow:
    if row.problem is not None or isinstance(row.cells, dict):
        return row
    return row._replace(problem=f"expected an object with key and value, not {(row.text or '').strip()[:60]}")


def _as_text(value: Any) -> str:
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case datetime():  # without a time zone it is local time, as Spark returns it
            return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    return str(value)

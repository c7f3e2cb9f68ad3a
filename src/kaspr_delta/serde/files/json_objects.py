"""The objects of a file of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from kaspr_delta.serde.files.read import file_rows
from kaspr_delta.serde.files.rows import FileRow, without_problems


def objects_of(data: BinaryIO, name: str) -> Iterator[dict[str, Any]]:
    """The objects of a file called ``name``, read as all files are.

    Raises UsageError, with the number of each line, for lines that are no JSON object.
    """
    for row in without_problems(map(_object, file_rows(data, name, "json"))):
        yield row.cells


def _object(row: FileRow) -> FileRow:
    if row.problem is not None or isinstance(row.cells, dict):
        return row
    return row._replace(problem=f"expected an object with key and value, not {(row.text or '').strip()[:60]}")

"""The rows of a file in any of the formats, from its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Literal, TextIO, get_args

import pyarrow as pa

from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.serde.files.arrow_rows import arrow_rows, parquet_table
from kaspr_delta.serde.files.delimited import delimited_rows
from kaspr_delta.serde.files.parquet_folder import parquet_folder
from kaspr_delta.serde.files.rows import ColumnsCheck, FileRow, any_columns, without_problems
from kaspr_delta.serde.files.text_stream import not_utf8, readable, text_stream
from kaspr_delta.serde.json_text import parse_line

RowFormat = Literal["json", "csv", "tsv", "parquet"]
"""Formats of files of rows; json is JSON lines."""

_ENDINGS: dict[str, RowFormat] = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}


def format_named(name: str) -> RowFormat | None:
    """The format that the ending of a file's name says, without that of its compression.

    >>> format_named("orders.CSV.gz"), format_named("orders")
    ('csv', None)
    """
    path = PurePath(name.lower())
    return _ENDINGS.get((path.with_suffix("") if path.suffix in _COMPRESSED else path).suffix)


def file_rows(  # noqa: PLR0913, PLR0917  all there is to say of a file
    data: BinaryIO,
    name: str,
    file_format: RowFormat,
    delimiter: str = ",",
    columns: Sequence[str] | None = None,
    check: ColumnsCheck = any_columns,
) -> Iterator[FileRow]:
    """The rows of a file called ``name``, which is closed after them; those that cannot be read have a problem.

    CSV and TSV name their columns in the first line, unless ``columns`` are given. JSON lines have no columns to
    ``check``. Raises UsageError, perhaps after some rows, if the rest of the file cannot be read,
    and that of ``check``.
    """
    try:
        if file_format == "parquet":
            yield from arrow_rows(parquet_table(data, name), name, check)
            return
        with text_stream(data, name) as stream:
            if file_format == "json":
                yield from _json_rows(stream, name)
            else:
                yield from delimited_rows(stream, name, "\t" if file_format == "tsv" else delimiter, columns, check)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{name} cannot be read: {error}") from error


def objects_of(data: BinaryIO, name: str) -> Iterator[dict[str, Any]]:
    """The objects of a file called ``name``, read as all files are.

    Raises UsageError, with the numbers of the first lines, for lines that are no JSON object.
    """
    for row in without_problems(map(_object, file_rows(data, name, "json"))):
        yield row.cells


def rows_of_path(path: str, file_format: RowFormat, check: ColumnsCheck = any_columns) -> Iterator[FileRow]:
    """The rows of a file of this machine, or of a folder of Parquet files. Raises UsageError as ``file_rows``."""
    try:
        if file_format == "parquet" and Path(path).is_dir():
            yield from parquet_folder(Path(path), check)
            return
        with Path(path).open("rb") as data:
            yield from file_rows(data, path, file_format, check=check)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def checked_format(given: str) -> RowFormat:
    """The format of that name. Raises UsageError."""
    for known in get_args(RowFormat):
        if given == known:
            return known  # type: ignore[no-any-return]  # get_args has no types
    raise UsageError(f"format {given!r}: expected {', '.join(get_args(RowFormat))}")


def _json_rows(stream: TextIO, name: str) -> Iterator[FileRow]:
    """The rows of a file. An object in which a name stands twice is a problem: readers would choose differently."""
    for number, ended in enumerate(stream, start=1):
        place, line = f"{name}:{number}", ended.rstrip("\r\n")
        if not line.strip():
            continue
        if not line.isascii() and (found := not_utf8(line)):
            yield FileRow(f"{place}:{found[1]}", None, readable(line), found[2])
            continue
        try:
            yield FileRow(place, parse_line(line), line)
        except SerializationError as error:
            yield FileRow(place, None, line, str(error))


def _object(row: FileRow) -> FileRow:
    if row.problem is not None or isinstance(row.cells, dict):
        return row
    return row._replace(problem=f"expected an object with key and value, not {(row.text or '').strip()[:60]}")

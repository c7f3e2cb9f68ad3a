"""Rows of CSV and TSV files, as RFC 4180 describes them.

A field in quotes may hold separators, line breaks and, written twice, quotes. A backslash is a character like others.
An empty field is null, and ``""`` is empty text. Blank lines are no rows.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import TextIO

from kaspr_delta.errors import UsageError
from kaspr_delta.serde.files.rows import ColumnsCheck, FileRow, any_columns
from kaspr_delta.serde.files.text_stream import not_utf8, readable

# The limit of the csv module, 128 KiB a field, is for all of its users. A field here may be a long JSON text.
csv.field_size_limit((1 << 31) - 1)

_OPEN_QUOTE = "unexpected end of data"


def delimited_rows(
    stream: TextIO,
    name: str,
    delimiter: str = ",",
    columns: Sequence[str] | None = None,
    check: ColumnsCheck = any_columns,
) -> Iterator[FileRow]:
    """The rows of a file. Without ``columns`` the first row names them.

    Raises UsageError if it cannot be read, gives a column no name, or two of them one name, and that of ``check``.
    """
    names = None if columns is None else list(columns)
    for line, fields, text, problem in _records(stream, delimiter):
        place = f"{name}:{line}"
        if problem is not None:
            found = not_utf8(text)
            row = FileRow(place, None, text, problem)
            if found:
                row = FileRow(f"{name}:{line + found[0]}:{found[1]}", None, readable(text), found[2])
            if names is None:  # without names no row can be read
                raise UsageError(f"{row.place}: {row.problem}")
            yield row
        elif names is None:
            names = _header(fields, place)
            check(names)
        elif len(fields) != len(names):
            yield FileRow(place, None, text, f"expected {len(names)} fields, found {len(fields)}")
        else:
            yield FileRow(place, dict(zip(names, _cells(fields, text, delimiter), strict=True)), text)


def _records(stream: TextIO, delimiter: str) -> Iterator[tuple[int, list[str], str, str | None]]:
    """Records with the number of their first line, their fields, their text, and their problem."""
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for line in stream:
            taken.append(line)
            yield line

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        taken.clear()
        fields, problem = [], None
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = _problem(str(error))
        text = "".join(taken).rstrip("\r\n")
        if problem is None and not text.isascii() and not_utf8(text):
            problem = "this is not UTF-8 text"
        if fields or problem:
            yield line, fields, text, problem


def _problem(error: str) -> str:
    if error == _OPEN_QUOTE:
        return "a quote is opened here and not closed: in a field in quotes a quote is written twice"
    return f"this is not CSV: {error}; in a field in quotes a quote is written twice"


def _header(names: list[str], place: str) -> list[str]:
    if len(set(names)) < len(names) or not all(names):
        shown = ",".join(names)[:80]
        raise UsageError(f"{place}: the first line must name the columns, each by a name of its own, not {shown}")
    return names


def _cells(fields: list[str], text: str, delimiter: str) -> list[str | None]:
    """Fields with None for empty ones that are not in quotes, a difference that the csv module does not show."""
    if "" not in fields:
        return list(fields)
    if '""' not in text:
        return [field or None for field in fields]
    as_written = re.findall(rf'("(?:[^"]|"")*"|[^{re.escape(delimiter)}]*)(?:{re.escape(delimiter)}|\Z)', text)
    return [field if field or one else None for field, one in zip(fields, as_written, strict=False)]

"""Rows of files of JSON lines: each line is a value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.files.rows import FileRow
from kaspr_delta.serde.files.text_stream import not_utf8, readable
from kaspr_delta.serde.json_text import parse, refuse_constant
from kaspr_delta.serde.long_fraction import fraction_of


def json_rows(stream: TextIO, name: str) -> Iterator[FileRow]:
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


def parse_line(line: str) -> Any:
    """The value of a JSON text. Raises SerializationError, also for an object in which a name stands twice."""
    try:
        return _unique.decode(line)
    except (ValueError, RecursionError):
        return parse(line)  # raises SerializationError, or reads what only msgspec reads: whole numbers of any length


def _of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise SerializationError(f"the name {twice!r} stands twice in an object")
    return found


_unique = json.JSONDecoder(object_pairs_hook=_of_pairs, parse_float=fraction_of, parse_constant=refuse_constant)

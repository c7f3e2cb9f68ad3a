"""JSON lines: one object a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO

from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.serde.json_text import parse


def objects_of(stream: TextIO, name: str) -> Iterator[dict[str, Any]]:
    """The objects of a file of that name; empty lines count for nothing. Raises UsageError with the line's number."""
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        try:
            record = parse(line)
        except SerializationError as error:
            msg = f"{name}:{number}: {error}"
            raise UsageError(msg) from error
        if not isinstance(record, dict):
            msg = f"{name}:{number}: expected an object with key and value, not {line.strip()[:60]}"
            raise UsageError(msg)
        yield record

"""JSON lines, for people and programs that read lines: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, TextIO

from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.serde.json_text import parse
from kaspr_delta.serde.utf8 import utf8_lines


def json_line(record: dict[str, Any]) -> str:
    """One record as a line of JSON: bytes as text, datetimes in UTC, text that has no UTF-8 escaped."""
    line = json.dumps(record, default=_as_text, ensure_ascii=False, separators=(",", ":"))
    try:
        line.encode()
    except UnicodeEncodeError:
        return json.dumps(record, default=_as_text, separators=(",", ":"))
    return line


def objects_of(stream: TextIO, name: str) -> Iterator[dict[str, Any]]:
    """The objects of a file called ``name``, opened with ``UNREADABLE_KEPT``; empty lines are skipped.

    Raises UsageError with the number of a line that is not a JSON object.
    """
    for number, line in enumerate(utf8_lines(stream, name), start=1):
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


def _as_text(value: Any) -> str:
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case datetime():  # without a time zone it is local time, as Spark returns it
            return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    return str(value)

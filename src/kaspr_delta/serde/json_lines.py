"""Records as JSON lines, for people and programs that read lines: one object per line."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

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


def _as_text(value: Any) -> str:
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case datetime():  # without a time zone it is local time, as Spark returns it
            return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    return str(value)

"""Values as text in the cells of a page."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

_LONGEST = 300


def short_text(value: Any, longest: int = _LONGEST) -> str:
    """A value as text for people; long text is cut."""
    match value:
        case None:
            return ""
        case bytes():
            value = value.decode("utf-8", "replace")
        case datetime():
            value = f"{value:%Y-%m-%d %H:%M:%S}"
        case dict() | list():
            value = json.dumps(value, default=str)
    text = str(value)
    return text if len(text) <= longest else f"{text[:longest]}…"

"""Tables and texts as kubectl prints them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))
# Below this many of a unit the next smaller unit is used: 119s, 119m, 47h.
_SMALLER_UNTIL = 2


def age(moment: datetime) -> str:
    """The time since a moment, in one unit.

    >>> from datetime import timedelta
    >>> age(datetime.now(timezone.utc) - timedelta(minutes=90))
    '90m'
    """
    seconds = max(0, int((datetime.now(timezone.utc) - moment).total_seconds()))
    for unit, length in _UNITS:
        if seconds >= _SMALLER_UNTIL * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def columns(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, with three blanks between columns."""
    table = [heading, *rows]
    widths = [max(len(row[number]) for row in table) for number in range(len(heading))]
    for row in table:
        yield "   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def yaml_text(value: Any) -> str:
    """Plain data as YAML. Text of several lines, such as Python, becomes a block."""
    yaml = YAML()
    yaml.width = 120
    out = io.StringIO()
    yaml.dump(_with_blocks(value), out)
    return out.getvalue()


def described(value: Any, depth: int = 0) -> Iterator[str]:
    """Plain data as `kubectl describe` prints it: names as words, values aligned."""
    indent = "  " * depth
    if isinstance(value, dict):
        width = max((len(_words(name)) for name, item in value.items() if not _is_deep(item)), default=0) + 1
        for name, item in value.items():
            if _is_deep(item):
                yield f"{indent}{_words(name)}:"
                yield from described(item, depth + 1)
            else:
                yield f"{indent}{(_words(name) + ':').ljust(width)}  {_text(item)}"
    elif isinstance(value, list):
        for item in value:
            yield from described(item, depth)
    else:
        yield from (f"{indent}{line}" for line in str(value).rstrip().splitlines())


def _is_deep(value: Any) -> bool:
    return (isinstance(value, dict | list) and bool(value)) or (isinstance(value, str) and "\n" in value)


def _text(value: Any) -> str:
    if value is None or value in ({}, []):
        return "<none>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _words(name: str) -> str:
    """The name of a field as words.

    >>> _words("leftTable"), _words("kaspr.io/app")
    ('Left Table', 'kaspr.io/app')
    """
    if not name.isidentifier():
        return name
    if name.startswith("api"):
        return f"API {name[3:]}"
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name[:1].upper() + name[1:])


def _with_blocks(value: Any) -> Any:
    match value:
        case dict():
            return {name: _with_blocks(item) for name, item in value.items()}
        case list():
            return [_with_blocks(item) for item in value]
        case str() if "\n" in value:
            return LiteralScalarString(value)
    return value

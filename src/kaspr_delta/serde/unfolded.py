"""Rows for people: each field of their objects as a column, and the text of each cell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.json_text import parse, value_text
from kaspr_delta.serde.typed_values import plain_json

MOST_FIELDS = 40
"""An object with more fields than these stays one column of JSON."""

_LONGEST = 300


def parsed(rows: Iterable[Mapping[str, Any]], json: Collection[str]) -> list[dict[str, Any]]:
    """The rows with the values of their columns of JSON text in place of the text. Text that is not JSON stays."""
    return [{name: _parsed(value) if name in json else value for name, value in row.items()} for row in rows]


def unfolded(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows with a column for each field of an object, such as ``value.price``. All rows have the same columns.

    >>> unfolded([{"key": "a", "value": {"price": 1}}, {"key": "b", "value": {"unit": {"name": "kg"}}}])[1]
    {'key': 'b', 'value.price': None, 'value.unit.name': 'kg'}
    """
    columns: dict[str, list[Any]] = {}
    names = {name: None for row in rows for name in row}
    for name in names:
        cells = [row.get(name) for row in rows]
        fields = dict(found := list(_fields(name, cells)))
        # A column, or another field, may have the name of a field.
        taken = len(fields) < len(found) or not fields.keys().isdisjoint((names.keys() | columns.keys()) - {name})
        columns.update({name: cells} if taken else fields)
    return [{name: cells[number] for name, cells in columns.items()} for number in range(len(rows))]


def cell_text(value: Any, longest: int | None = None) -> str:
    """The whole text of a cell; with ``longest`` it is cut, and times have no zone.

    Text that would be read as another value keeps its quotes: the keys ``"1"`` and ``1`` are different.

    >>> cell_text("O1"), cell_text("1"), cell_text(1), cell_text(True), cell_text(["a"])
    ('O1', '"1"', '1', 'true', '["a"]')
    """
    match value:
        case None:
            return ""
        case str():
            text = value_text(value) if _is_json(value) else value
        case datetime():
            text = value.isoformat() if longest is None else f"{value:%Y-%m-%d %H:%M:%S}{_milliseconds(value)}"
        case bytes():
            text = _decoded(value)
        case _:
            plain = plain_json(value)
            text = plain if isinstance(plain, str) else value_text(plain)
    return text if longest is None or len(text) <= longest else f"{text[:longest]}…"


def shown(value: Any) -> str:
    """The text of a cell on a page."""
    return cell_text(value, _LONGEST)


def _fields(name: str, cells: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    objects = [cell for cell in cells if cell is not None]
    fields = dict.fromkeys(field for cell in objects if isinstance(cell, dict) for field in cell)
    if not all(isinstance(cell, dict) for cell in objects) or not 0 < len(fields) <= MOST_FIELDS:
        yield name, cells
        return
    for field in fields:
        yield from _fields(f"{name}.{field}", [None if cell is None else cell.get(field) for cell in cells])


def _parsed(value: Any) -> Any:
    if not isinstance(value, str | bytes):
        return value
    try:
        parsed = parse(value)
        if "\\u" in (value if isinstance(value, str) else value.decode("utf-8", "replace")):
            value_text(parsed).encode()
    except (SerializationError, UnicodeEncodeError):  # half a surrogate pair is no text: the JSON shows it
        return value
    return parsed


def _is_json(text: str) -> bool:
    """Whether a text is JSON of another kind, such as a number."""
    try:
        parse(text)
    except SerializationError:
        return not text
    return True


def _decoded(data: bytes) -> str:
    """Bytes as text; in base64 if they are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return str(plain_json(data))


def _milliseconds(moment: datetime) -> str:
    return f".{moment.microsecond // 1_000:03}" if moment.microsecond else ""

"""Cells of files as JSON values, for tables and topics without columns.

The value of a cell depends on the cell alone, never on the rest of its column or file: so ``100`` is the same key in
every file. A number that is whole has no fraction, however it is written: programs such as pandas write whole numbers
as ``100.0`` where a column has gaps.
"""

from __future__ import annotations

import base64
import contextlib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timezone
from decimal import Decimal, InvalidOperation
from typing import Any

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.files.rows import FileRow
from kaspr_delta.serde.json_text import parse, value_text
from kaspr_delta.serde.long_fraction import fraction_of
from kaspr_delta.serde.typed_values import shown

JSON_COLUMN, BASE64_COLUMN = ":json", ":base64"
"""Ends of names of columns with JSON text, or with base64: ``export`` writes there what no plain cell holds."""

# No number has leading zeros, a plus or an exponent: such a text is more likely a code. Python reads no longer one.
_NUMBER = re.compile(r"(-?(?:0|[1-9]\d{0,4000}))(\.\d+)?", re.ASCII)
_TRUTH = {"true": True, "false": False}
# Up to here all whole numbers are floats.
FLOATS_END = 1 << 53


def field_value(text: str) -> Any:
    """The value of a field of CSV: a number or a truth value if it is unmistakably one, else text.

    >>> [field_value(text) for text in ("100", "100.0", "9.50", "007", "1e5", "true", "A7")]
    [100, 100, 9.5, '007', '1e5', True, 'A7']
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return _TRUTH.get(text, text)
    whole, fraction = match.groups()
    if fraction is None:
        return int(whole)
    return int(whole) if not fraction.strip(".0") and whole != "-0" else fraction_of(text)


def json_value(value: Any, *, exact: bool = False) -> Any:  # noqa: PLR0911  one a kind of values
    """The JSON form of a value of Parquet or Delta. Raises SerializationError for a number that JSON does not have.

    Dates and times are ISO text, times with a zone in UTC, bytes are base64, and decimals are numbers. ``exact`` values
    are from a file of ``export``: numbers stay fractions, and fields of objects may be JSON text.
    """
    match value:
        case Mapping():
            fields = (
                (name if isinstance(name, str) else _text_of(json_value(name)), one) for name, one in value.items()
            )
            return _parsed(fields) if exact else {name: json_value(one) for name, one in fields}
        case list() | tuple():
            return [json_value(item, exact=exact) for item in value]
        case bytes():
            return base64.b64encode(value).decode()
        case bool() | int() | str() | None:
            return value
        case float():
            if not math.isfinite(value):
                raise SerializationError(f"{value} is a number that JSON does not have: make it null")
            return value if exact else whole_or_fraction(value)
        case Decimal():
            return whole_or_fraction(fraction_of(str(value)))
        case datetime():
            utc = value if value.tzinfo is None else value.astimezone(timezone.utc)
            return utc.isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case _:
            raise SerializationError(f"{type(value).__name__} {value} has no JSON: write it as text")


def nested_value(cells: Mapping[str, Any], ignored: Collection[str]) -> tuple[Any] | None:
    """The value in the columns ``value`` or ``value.…`` of a row with a key; None if there is none, or other columns.

    Raises SerializationError if two columns are one field.

    >>> nested_value({"key": 1, "value.name": "Lamp", "value.size.cm": 3, "timestamp": 0}, {"timestamp"})
    ({'name': 'Lamp', 'size': {'cm': 3}},)
    """
    names = [name for name in cells if name != "key" and name not in ignored]
    if names == ["value"]:
        return (cells["value"],)
    if not names or not all(name.startswith("value.") for name in names):
        return None
    value: dict[str, Any] = {}
    for name in names:
        *above, last = name.split(".")[1:]
        inner: Any = value
        for one in above:
            inner = inner.setdefault(one, {}) if isinstance(inner, dict) else inner
        if not isinstance(inner, dict) or last in inner:
            raise SerializationError(f"column {name} and another one are the same field")
        inner[last] = cells[name]
    return (value,)


def _parsed(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Fields of an object of ``export``: without those that the object did not have."""
    found: dict[str, Any] = {}
    for name, value in fields:
        if not name.endswith(JSON_COLUMN):
            found[name] = json_value(value, exact=True)
        elif value is not None:
            found[name.removesuffix(JSON_COLUMN)] = parse(value)
    return found


def whole_or_fraction(number: Any) -> Any:
    """A float as a whole number, if it is one; another value as it is.

    >>> [whole_or_fraction(one) for one in (100.0, 9.5, "100.0")]
    [100, 9.5, '100.0']
    """
    is_whole = type(number) is float and number.is_integer() and abs(number) < FLOATS_END
    is_minus_zero = number == 0 and math.copysign(1, number) < 0
    return int(number) if is_whole and not is_minus_zero else number


@dataclass(slots=True)
class UntypedCells:
    """Makes JSON values of cells, and counts the kinds of values that it infers from text.

    The columns ``text`` hold text, whatever their cells look like, and the columns ``number`` hold numbers. Bytes
    in the columns ``raw`` stay bytes.
    """

    text: frozenset[str] = frozenset()
    number: frozenset[str] = frozenset()
    raw: frozenset[str] = frozenset()
    kinds: dict[str, Counter[str]] = field(default_factory=dict)

    def row(self, row: FileRow) -> FileRow:
        """A row with JSON values as cells. Raises SerializationError, with the column, for a cell that has none."""
        values = {}
        for name, cell in row.cells.items():
            in_json, in_base64 = name.removesuffix(JSON_COLUMN), name.removesuffix(BASE64_COLUMN)
            if in_json != name and in_json in row.cells:
                raise SerializationError(f"column {name}: there is a column {in_json} too")
            try:
                if in_json != name:
                    if cell is not None:
                        values[in_json] = parse(cell)
                elif in_base64 in self.raw - {name} and row.text is not None:
                    values[in_base64] = None if cell is None else base64.b64decode(cell, validate=True)
                else:
                    values[name] = cell if cell is None else self._value(name, cell, row)
            except (SerializationError, ValueError) as error:
                raise SerializationError(f"column {name}: {error}") from error
        return row._replace(cells=values)

    def _value(self, name: str, cell: Any, row: FileRow) -> Any:
        if name in self.raw and isinstance(cell, bytes):
            return cell
        is_text = row.text is not None and isinstance(cell, str)
        if name in self.text:
            return cell if is_text else _text_of(json_value(cell))
        if name in self.number:
            return _number_of(cell if is_text else json_value(cell))
        value = field_value(cell) if is_text else json_value(cell, exact=row.exact)
        self.kinds.setdefault(name, Counter())[_kind(value)] += 1
        return value


def _text_of(value: Any) -> str:
    if isinstance(value, dict | list):
        raise SerializationError(f"{value_text(value)[:60]} is no text")
    return value if isinstance(value, str) else value_text(value)


def _number_of(value: Any) -> int | float:
    odd = isinstance(value, str) and (not value.isascii() or "_" in value)  # of numbers in Python only
    if odd or isinstance(value, bool) or not isinstance(value, str | int | float):
        raise SerializationError(f"{shown(value)} is no number")
    try:
        number = Decimal(value.strip() if isinstance(value, str) else value_text(value))
    except InvalidOperation:
        raise SerializationError(f"{shown(value)} is no number") from None
    if not number.is_finite():
        raise SerializationError(f"{shown(value)} is a number that JSON does not have")
    return int(number) if "E" not in str(number) and number == number.to_integral_value() else fraction_of(str(number))


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "truth value"
        case int() | float():
            return "number"
        case str():
            return "text"
        case _:
            return "object"


def other_kind(key: str) -> Any:
    """The key that looks like this one, of JSON text: text for a number, and a number for its text. None without one.

    >>> other_kind("100"), other_kind('"100"'), other_kind('"007"'), other_kind("[1]")
    ('100', 100, None, None)
    """
    if key.startswith('"'):
        number = field_value(parse(key))
        return number if _kind(number) == "number" and value_text(number) == key[1:-1] else None
    return key if _NUMBER.fullmatch(key) else None


def number_first(key: str) -> tuple[bool, float]:
    """The sort key of a key of JSON text: numbers by value, before all others."""
    if key[:1] in "-0123456789":
        with contextlib.suppress(ValueError):  # text that SQL wrote
            return False, float(key)
    return True, 0

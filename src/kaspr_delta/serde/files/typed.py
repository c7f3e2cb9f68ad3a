"""Cells of files as values of typed columns: a cell that does not fit its type is refused, never rounded or cut."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.files.rows import FileRow, PartitionText
from kaspr_delta.serde.files.untyped import FLOATS_END
from kaspr_delta.serde.json_text import parse_line
from kaspr_delta.serde.long_fraction import fraction_of
from kaspr_delta.serde.typed_values import misfit, read, shown, written
from kaspr_delta.spec.ddl import Column, Type

_TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_MOMENT = re.compile(
    _DAY.pattern + r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?\s?(Z|UTC|[+-]\d{2}(?::?\d{2})?)?)?", re.ASCII
)
_MICROSECOND_DIGITS = 6
_WHOLE = {"TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL"}


def typed_row(row: FileRow, columns: Iterable[Column]) -> dict[str, Any]:
    """The values of a row by column; those of columns that the file does not have are left out.

    Raises SerializationError, with the column, for a cell that is not of its type.
    """
    value_of = _of_text if row.text is not None else _of_object
    return {one.name: value_of(one.type, row.cells[one.name], one.name) for one in columns if one.name in row.cells}


def json_of(of: Type, value: Any) -> Any:  # noqa: PLR0911  one a kind of types
    """The JSON form of a value on a topic: decimals are numbers, and times of whole milliseconds have these alone."""
    if value is None:
        return None
    match of.name:
        case "STRUCT":
            return {column.name: json_of(column.type, value[column.name]) for column in of.fields}
        case "ARRAY":
            return [json_of(of.inner[0], item) for item in value]
        case "MAP":
            keys = written(of, dict.fromkeys(value), "the map")
            return dict(zip(keys, (json_of(of.inner[1], item) for item in value.values()), strict=True))
        case "DECIMAL":
            return int(value) if of.size[1] == 0 else fraction_of(str(value))
        case "TIMESTAMP" | "TIMESTAMP_NTZ" if value.microsecond % 1_000 == 0:
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case _:
            return written(of, value, "")


def _of_text(of: Type, cell: str | None, name: str) -> Any:
    """The value of a field of CSV. A nested value is JSON text, and bytes are base64, as ``export`` writes them."""
    if cell is None:
        return None
    if of.name == "STRING":
        return cell
    parsed = _parsed(of, cell, name) if of.name in _FROM_TEXT else cell
    try:
        return read(of, written(of, parsed, name))
    except SerializationError:
        if of.inner or of.fields:  # the message says which item or field it is
            raise
        raise misfit(of, cell, name) from None


def _of_object(of: Type, cell: Any, name: str) -> Any:
    """The value of a cell that has a type: of Parquet or of JSON."""
    if isinstance(cell, PartitionText):
        return _of_text(of, str(cell), name)
    if cell is None or (of.name == "STRING" and isinstance(cell, str)):
        return cell
    if of.name in _WHOLE and isinstance(cell, float) and abs(cell) >= FLOATS_END:
        message = f"{name} is {of}, and {shown(cell)} is a fraction of 64 bits, too large to have all its digits"
        raise SerializationError(f"{message}: write the column as whole numbers (in pandas Int64)")
    return read(of, written(of, cell, name))


def _parsed(of: Type, text: str, name: str) -> Any:
    """The value of a text. Raises SerializationError if it has none."""
    try:
        return _FROM_TEXT[of.name](of, text, name)
    except (ValueError, ArithmeticError, KeyError):
        raise misfit(of, text, name) from None


def _number(_of: Type, text: str, _name: str) -> Decimal:
    plain = text.strip()
    if not _NUMBER.fullmatch(plain):
        raise ValueError(text)
    return Decimal(plain)


def _floating(of: Type, text: str, name: str) -> float | Decimal:
    return float(text) if _NOT_FINITE.fullmatch(text.strip()) else _number(of, text, name)


def _day(_of: Type, text: str, _name: str) -> date:
    match = _DAY.fullmatch(text.strip())
    return date(*map(int, match.groups())) if match else date.fromisoformat("")


def _moment(of: Type, text: str, name: str) -> datetime:
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    digits = (fraction or "").rstrip("0")
    if len(digits) > _MICROSECOND_DIGITS:
        raise SerializationError(f"{name} is {of}, and {shown(text)} has more than microseconds")
    micros = int(digits.ljust(_MICROSECOND_DIGITS, "0") or 0)
    clock = time(int(hour or 0), int(minute or 0), int(second or 0), micros, None if zone is None else _zone(zone))
    return datetime.combine(date(int(year), int(month), int(day)), clock)


def _zone(text: str) -> timezone:
    if text in {"Z", "UTC"}:
        return timezone.utc
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def _bytes(of: Type, text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # also for letters outside ASCII
        raise SerializationError(f"{name} is {of}, and {shown(text)} is not base64") from None


def _nested(of: Type, text: str, name: str) -> Any:
    try:
        parsed = parse_line(text)
    except SerializationError as error:
        raise SerializationError(f"{name} is {of}, and {shown(text)} is not: {error}") from None
    return of_json(of, parsed, name)


def of_json(of: Type, value: Any, name: str) -> Any:
    """A value of JSON with its texts read as cells are: each becomes a value of its type, or ``written`` refuses it."""
    match value:
        case dict() if of.name == "STRUCT":
            types = {column.name: column.type for column in of.fields}
            return {
                one: of_json(types[one], item, f"{name}.{one}") if one in types else item for one, item in value.items()
            }
        case list() if of.name == "ARRAY":
            return [of_json(of.inner[0], item, f"{name}[{n}]") for n, item in enumerate(value)]
        case dict() if of.name == "MAP":
            keys = [_of_text(of.inner[0], key, f"a key of {name}") for key in value]
            if len(set(keys)) < len(keys):
                raise SerializationError(f"{name} is {of}, and one of its keys stands twice")
            items = [of_json(of.inner[1], item, f"{name}[{key}]") for key, item in value.items()]
            return dict(zip(keys, items, strict=True))
        case str() if of.name in _TEXT_IN_JSON:
            return _parsed(of, value, name)
        case _:
            return value


_FROM_TEXT: dict[str, Callable[[Type, str, str], Any]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL"), _number),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _floating),
    "BOOLEAN": lambda _of, text, _name: _TRUTH[text.strip().lower()],
    "DATE": _day,
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ"), _moment),
    "BINARY": _bytes,
    **dict.fromkeys(("ARRAY", "MAP", "STRUCT"), _nested),
}
# The types whose values JSON has as text.
_TEXT_IN_JSON = {"DECIMAL", "FLOAT", "DOUBLE", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}

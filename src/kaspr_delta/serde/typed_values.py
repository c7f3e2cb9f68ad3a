"""Values of typed columns as Python objects and as exact JSON.

Times have microseconds, those of TIMESTAMP are in UTC; bytes are in base64, decimals have all their digits.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timezone
from decimal import Context, Decimal
from functools import partial
from struct import pack, unpack
from typing import Any
from uuid import UUID

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde import json_text
from kaspr_delta.serde.long_fraction import LongFraction
from kaspr_delta.serde.serializers import base64_text
from kaspr_delta.spec.column_types import key_kind
from kaspr_delta.spec.ddl import Type

SPARK_FORMATS = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "dateFormat": "yyyy-MM-dd",
}
"""The options with which Spark's ``to_json`` and ``from_json`` use the formats of this module."""

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
# Twice as many digits as a DECIMAL may have.
_WIDE = Context(prec=76)
# A fraction of a second that microseconds do not hold: Python would cut it.
_NANOSECONDS = re.compile(r"[.,]\d{6,}[1-9]", re.ASCII)
# The name of a row in messages: its columns are named without it.
_ROW = "the row"
# So many characters of a value are in a message.
_SHOWN = 60


def key_text(of: Type, value: Any, name: str) -> str:
    """The JSON text of one column of a key, the same for equal numbers of any type.

    Raises SerializationError for None and for a value of another kind.

    >>> key_text(Type("BIGINT"), 5, "id"), key_text(Type("DECIMAL", (10, 2)), Decimal("5.50"), "id")
    ('5', '5.5')
    """
    if value is None:
        raise SerializationError(f"the key column {name} has no value")
    if key_kind(of) == "number":
        number = _decimal(value, name)
        return format(number.normalize(_WIDE) if number else Decimal(0), "f")
    return json_text.value_text(written(of, value, name))


def written(of: Type, value: Any, name: str) -> Any:
    """The JSON form of a Python object. Raises SerializationError if the object is not of the type.

    ``name`` is the name of the value in the message.
    """
    if value is None:
        return None
    try:
        return _WRITERS[of.name](of, value, name)
    except (ValueError, ArithmeticError):
        raise misfit(of, value, name) from None


def read(of: Type, value: Any) -> Any:
    """The Python object that a function sees for a JSON value: the opposite of ``written``.

    Raises SerializationError if the value is not of the type.
    """
    if value is None:
        return None
    try:
        return _READERS[of.name](of, value)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, binascii.Error) as error:
        raise SerializationError(f"{shown(value)} cannot be read as {of}") from error


def from_columns(of: Type, value: Any) -> Any:
    """The Python object that a function sees for a value from Arrow: maps are dictionaries, times are in UTC.

    A missing field is null: it was added to the type, and not yet to the rows.
    """
    if value is None:
        return None
    match of.name:
        case "STRUCT":
            return {column.name: from_columns(column.type, value.get(column.name)) for column in of.fields}
        case "ARRAY":
            return [from_columns(of.inner[0], item) for item in value]
        case "MAP":
            return {from_columns(of.inner[0], key): from_columns(of.inner[1], item) for key, item in value}
        case _:
            return _FROM_ARROW.get(of.name, _as_it_is)(of, value)


def column_text(of: Type | None, values: Iterable[Any]) -> list[str | None]:
    """Values of a STRUCT column from Arrow as JSON text, as Spark's ``row_text`` writes them; None for none.

    Without a type they are text.
    """
    if of is None:
        return list(values)
    rows = (from_columns(of, value) for value in values)
    return [None if row is None else json_text.value_text(written(of, row, _ROW)) for row in rows]


def to_columns(of: Type, value: Any) -> Any:
    """A value that a function sees as Arrow takes it: the opposite of ``from_columns``."""
    if value is None:
        return None
    match of.name:
        case "STRUCT":
            return {column.name: to_columns(column.type, value.get(column.name)) for column in of.fields}
        case "ARRAY":
            return [to_columns(of.inner[0], item) for item in value]
        case "MAP":
            return [(to_columns(of.inner[0], key), to_columns(of.inner[1], item)) for key, item in value.items()]
        case _:
            return value


def plain_json(value: Any, *, keeps_local: bool = False) -> Any:
    """The JSON of a value whose type is not known: dates are ISO text, bytes base64, decimals have all digits.

    Other types are left to ``json_text``. There dates are midnights and bytes ``str()``, because Kaspr has no types.
    With ``keeps_local`` a time without a zone, as of TIMESTAMP_NTZ, has none in its text: ``load`` reads it so.

    >>> plain_json({"day": date(2024, 5, 1), "raw": b"a", "price": Decimal("1E+1")})
    {'day': '2024-05-01', 'raw': 'YQ==', 'price': '10'}
    >>> plain_json([datetime(2024, 7, 1, 10)], keeps_local=True)
    ['2024-07-01T10:00:00']
    """
    plain = partial(plain_json, keeps_local=keeps_local)
    match value:
        case Mapping():
            return {plain(name): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal() if value.is_finite():
            return format(value, "f")
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _:
            is_local = keeps_local and isinstance(value, datetime) and value.tzinfo is None
            return value.isoformat() if is_local or type(value) is date else value


# -- writing: a ValueError or an ArithmeticError of a writer says that the value is not of the type -------------------


def _checked(value: Any, *kinds: type) -> Any:
    """The value. Raises ValueError if it is of no such kind; a truth value is no number."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(value)
    return value


def _struct(of: Type, value: Any, name: str) -> dict[str, Any]:
    known = [column.name for column in of.fields]
    if unknown := [str(field) for field in _checked(value, Mapping) if field not in known]:
        raise SerializationError(f"{name} has no column {', '.join(unknown)}: its columns are {', '.join(known)}")
    inside = "" if name == _ROW else f"{name}."
    return {one.name: written(one.type, value.get(one.name), inside + one.name) for one in of.fields}


def _array(of: Type, value: Any, name: str) -> list[Any]:
    return [written(of.inner[0], item, f"{name}[{n}]") for n, item in enumerate(_checked(value, list, tuple))]


def _map(of: Type, value: Any, name: str) -> dict[str, Any]:
    keys = (written(of.inner[0], key, f"a key of {name}") for key in _checked(value, Mapping))
    texts = [key if isinstance(key, str) else json.dumps(key) for key in keys]
    items = [written(of.inner[1], item, f"{name}[{text}]") for text, item in zip(texts, value.values(), strict=True)]
    return dict(zip(texts, items, strict=True))


def _whole(of: Type, value: Any, name: str) -> int:
    number, most = _decimal(value, name), 1 << (_BITS[of.name] - 1)
    if number != number.to_integral_value() or not -most <= number < most:
        raise ValueError(value)
    return int(number)


def _exact(of: Type, value: Any, name: str) -> str:
    """A decimal as text: Spark reads decimals from text, and Python's JSON has floating point only."""
    precision, scale = of.size
    number = _decimal(Decimal(value) if isinstance(value, str) else value, name)
    if number and number.adjusted() > precision:  # far too large: not even rounded
        raise ValueError(value)
    exact = _scaled(number, scale)
    if exact != number or len(exact.as_tuple().digits) > precision:
        raise ValueError(value)
    return format(exact, "f")


def _decimal(value: Any, name: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise SerializationError(f"{name} is a number, and {shown(value)} is none")
    number = exact_number(value)
    if not number.is_finite():
        raise SerializationError(f"{name} is a number that one can count with, and {value} is none")
    return number


def exact_number(value: float | Decimal) -> Decimal:
    """A number with the digits in which it is written.

    >>> exact_number(0.1)
    Decimal('0.1')
    """
    if isinstance(value, LongFraction):
        return value.exact
    return Decimal(float.__repr__(value)) if isinstance(value, float) else Decimal(value)


def _scaled(number: Decimal, scale: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-scale), context=_WIDE)


def _floating(of: Type, value: Any, name: str) -> float | str:  # noqa: ARG001  called like the others
    number = float(_checked(value, int, float, Decimal))
    if of.name == "FLOAT":
        number = _single(number)
    if math.isinf(number) and exact_number(value).is_finite():
        raise ValueError(value)
    text_or_number: float | str = plain_json(number)
    return text_or_number


def _text(of: Type, value: Any, name: str) -> str:  # noqa: ARG001
    if not isinstance(value, str) or (of.size and len(value) > of.size[0]):
        raise ValueError(value)
    value.isascii() or value.encode()  # half of a surrogate pair is no text
    return value


def _padded(of: Type, text: str) -> str:
    """The text padded to the length of its CHAR type, as in Spark."""
    return text.ljust(of.size[0])


def _single(number: float) -> float:
    """The nearest FLOAT: in 32 bits 0.1 is 0.10000000149011612. Raises OverflowError."""
    return float(unpack("<f", pack("<f", number))[0])


def _date(of: Type, value: Any, name: str) -> str:  # noqa: ARG001
    day: date = date.fromisoformat(value) if isinstance(value, str) else _checked(value, date)
    if isinstance(day, datetime):
        raise ValueError(value)  # noqa: TRY004  as of other values
    return day.isoformat()


def _moment(of: Type, value: Any, name: str) -> str:  # noqa: ARG001
    moment = _datetime(value)
    utc = moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)
    return utc.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _local_moment(of: Type, value: Any, name: str) -> str:  # noqa: ARG001
    moment = _datetime(value)
    if moment.tzinfo is not None:
        raise ValueError(value)
    return moment.isoformat(timespec="microseconds")


def _datetime(value: Any) -> datetime:
    moment: datetime = _from_iso(value) if isinstance(value, str) else _checked(value, datetime)
    return moment


def _from_iso(text: str) -> datetime:
    if _NANOSECONDS.search(text):
        raise ValueError(text)
    return datetime.fromisoformat(text.replace("Z", "+00:00"))  # Python reads Z only since 3.11


def misfit(of: Type, value: Any, name: str) -> SerializationError:
    """The error for a value that is not of a type."""
    return SerializationError(f"{name} is {of}, and {shown(value)} is not")


def shown(value: Any) -> str:
    """A value in a message: text in quotes, others as JSON or as their own text has them, cut if that is long.

    >>> shown("9.9"), shown(Decimal("9.9")), shown(date(2024, 5, 1)), shown([1, None, True])
    ("'9.9'", '9.9', '2024-05-01', '[1,null,true]')
    """
    match value:
        case str():
            text = repr(value)
        case bytes():
            text = f"{len(value)} bytes"
        case Decimal() | date() | time() | UUID():
            text = str(value)
        case _:
            try:
                text = json_text.value_text(value)
            except SerializationError:
                text = str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 20]}...{text[-17:]}"


_WRITERS: dict[str, Callable[[Type, Any, str], Any]] = {
    "STRUCT": _struct,
    "ARRAY": _array,
    "MAP": _map,
    **dict.fromkeys(_BITS, _whole),
    "DECIMAL": _exact,
    **dict.fromkeys(("FLOAT", "DOUBLE"), _floating),
    **dict.fromkeys(("STRING", "VARCHAR"), _text),
    "CHAR": lambda of, value, name: _padded(of, _text(of, value, name)),
    "BOOLEAN": lambda _of, value, _name: _checked(value, bool),
    "BINARY": lambda _of, value, _name: base64_text(_checked(value, bytes, str)),
    "DATE": _date,
    "TIMESTAMP": _moment,
    "TIMESTAMP_NTZ": _local_moment,
}

# -- reading ----------------------------------------------------------------------------------------------------------


def _map_read(of: Type, value: dict[str, Any]) -> dict[Any, Any]:
    key, item = of.inner
    plain = key.name in {*_BITS, "BOOLEAN"}
    return {json.loads(text) if plain else read(key, text): read(item, one) for text, one in value.items()}


def _as_it_is(of: Type, value: Any) -> Any:  # noqa: ARG001  called like the others
    return value


_READERS: dict[str, Callable[[Type, Any], Any]] = {
    **dict.fromkeys(_WRITERS, _as_it_is),
    "STRUCT": lambda of, value: {column.name: read(column.type, value.get(column.name)) for column in of.fields},
    "ARRAY": lambda of, value: [read(of.inner[0], item) for item in value],
    "MAP": _map_read,
    "DECIMAL": lambda of, value: _scaled(Decimal(value) if isinstance(value, str) else exact_number(value), of.size[1]),
    "FLOAT": lambda _, value: _single(float(value)),
    "DOUBLE": lambda _, value: float(value),
    "CHAR": _padded,
    "BINARY": lambda _, value: base64.b64decode(value, validate=True),
    "DATE": lambda _, value: date.fromisoformat(value),
    "TIMESTAMP": lambda _, value: _from_iso(value).astimezone(timezone.utc),
    "TIMESTAMP_NTZ": lambda _, value: _from_iso(value),
}
_FROM_ARROW: dict[str, Callable[[Type, Any], Any]] = {
    "TIMESTAMP": lambda _, value: value.astimezone(timezone.utc),
    "CHAR": _padded,
}

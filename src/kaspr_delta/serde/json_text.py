"""JSON text of keys and values: the conversion of Python objects, and the equality of keys.

Keys are compared as *canonical* text, so ``1`` and ``"1"`` differ and ``{"a": 1, "b": 2}`` has one spelling. Values
keep the order of fields in which the author wrote them. Types that JSON does not have follow Kaspr's rules: datetimes
as ISO text with ``Z``, dates as midnight, Decimal, UUID and bytes as ``str()``, enums by value, sets and deques as
lists, objects with a ``__json__`` method as the result of that method. A fraction keeps all its digits, also those that
floating point loses (``LongFraction``).
"""

from __future__ import annotations

import json
import reprlib
from collections import deque
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.long_fraction import ExactEncoder, fraction_of, holds_long_fraction


def canonical_key(key: Any) -> str:
    """The canonical JSON text of a key: names sorted, without blanks, not ASCII-escaped.

    >>> canonical_key("P100"), canonical_key(1), canonical_key(("eu", 1))
    ('"P100"', '1', '["eu",1]')

    Raises SerializationError if the key has no JSON text.
    """
    text = _dump(key)
    if not text.startswith(("{", "[")):
        return text
    # Names are sorted as text: a dictionary may have numbers as names, which sort differently.
    return _dump(parse(text), sort_keys=True)


def key_texts(key: str) -> Iterator[str]:
    """The texts that a key may have in a table: as given, and as canonical JSON."""
    yield key
    try:
        yield canonical_key(key)
    except SerializationError:
        return


@lru_cache(maxsize=100_000)
def text_key(key: str) -> str:
    """The JSON text of a key that is text. Cached: the same few keys are asked for again and again."""
    return _dump(key)


def value_text(value: Any) -> str:
    """The JSON text of a value. Raises SerializationError if it has none."""
    return int.__repr__(value) if type(value) is int else _dump(value)


def parse(text: str | bytes) -> Any:
    """The object that a JSON text stands for. Raises SerializationError for text that is not JSON."""
    try:
        return _read(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _parse_as_python_does(text)


def _parse_as_python_does(text: str | bytes) -> Any:
    """Parse as Python does: it reads some JSON that others refuse, such as a lone surrogate, with better messages."""
    try:
        return _decoder.decode(text.decode() if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        shown = text[:60] if isinstance(text, str) else text[:60].decode("utf-8", "replace")
        raise SerializationError(f"not JSON: {shown!r} ({error})") from error


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


def is_canonical(text: str) -> bool:
    """Whether the text is the canonical text of a key."""
    try:
        return canonical_key(parse(text)) == text
    except SerializationError:
        return False


def _dump(value: Any, *, sort_keys: bool = False) -> str:
    try:
        encode = _ENCODERS[sort_keys]
        if holds_long_fraction(value):
            encode = _EXACT_ENCODERS[sort_keys]
        text = encode(value)
        if not text.isascii():
            text.encode()  # a lone surrogate has no UTF-8, and would fail far from its cause
    except Exception as error:  # an object's own __json__ may raise anything
        raise SerializationError(f"no JSON text for {type(value).__name__} {reprlib.repr(value)}: {error}") from error
    return text


def _plain(value: Any) -> Any:
    """The JSON form of an object of a type that ``json.dumps`` does not know."""
    if hasattr(value, "__json__"):
        return value.__json__()
    match value:
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return datetime.combine(value, time.min).isoformat()
        case Decimal() | UUID() | bytes():
            return str(value)
        case Enum():
            return value.value
        case set() | frozenset() | deque():
            return list(value) if isinstance(value, deque) else sorted(value, key=_type_and_text)
    raise TypeError(f"objects of type {type(value).__name__} are not JSON")


def _type_and_text(item: Any) -> tuple[str, str]:
    """The sort key of a set's items, which may have any types: the order is the same in every process."""
    return type(item).__name__, repr(item)


def refuse_constant(name: str) -> None:
    """Raise ValueError for NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=refuse_constant, parse_float=fraction_of)
_unique = json.JSONDecoder(object_pairs_hook=_of_pairs, parse_float=fraction_of, parse_constant=refuse_constant)
# Several times as fast as Python's decoder, and whole numbers of any length stay whole numbers.
_read = msgspec.json.Decoder(float_hook=fraction_of).decode

_SETTINGS: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False, "allow_nan": False}


def _encoder(*, sort_keys: bool) -> Callable[[Any], str]:
    """``json.dumps`` with an encoder made once: most of its time goes into making the encoder's C part each time."""
    whole = json.JSONEncoder(default=_plain, sort_keys=sort_keys, **_SETTINGS)
    fast = getattr(json.encoder, "c_make_encoder", None)
    if fast is None:  # an interpreter without the C encoder
        return whole.encode
    text_of = json.encoder.encode_basestring
    pieces = fast(None, _plain, text_of, None, ":", ",", sort_keys, whole.skipkeys, whole.allow_nan)
    return lambda value: "".join(pieces(value, 0))


_ENCODERS = {sort_keys: _encoder(sort_keys=sort_keys) for sort_keys in (False, True)}
_EXACT_ENCODERS = {
    sort_keys: ExactEncoder(default=_plain, sort_keys=sort_keys, **_SETTINGS).encode for sort_keys in (False, True)
}

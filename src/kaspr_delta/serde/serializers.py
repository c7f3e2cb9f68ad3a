"""The four serializers of topics: bytes on a topic to the objects that functions see, and back.

``None`` stands for "no bytes" in both directions: a tombstone, a missing key. JSON ``null`` is also read as ``None``.
"""

from __future__ import annotations

import base64
import binascii
import pickle
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED, pass_on_interruption
from kaspr_delta.plan.definition.resources import SerializerName
from kaspr_delta.serde import json_text


def raw_bytes(value: Any) -> bytes:
    """Bytes unchanged, text as UTF-8. Raises SerializationError for anything else."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise SerializationError(f"raw keys and values are bytes or text, not {type(value).__name__}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise SerializationError(f"no UTF-8 for {value[:30]!r}: {error}") from error


class Serializer(NamedTuple):
    """Bytes to objects and back. Both functions raise SerializationError."""

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]


# The same few keys come again and again. Only text is cached, because it is immutable.
_parse_text = lru_cache(maxsize=100_000)(json_text.parse)


def _parse_key(text: str | bytes) -> Any:
    return _parse_text(text) if text[:1] == b'"' else json_text.parse(text)


def _json(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json_text.value_text(value).encode()


def _json_key(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json_text.canonical_key(value).encode()


def base64_text(value: Any) -> str:
    """Bytes, or text as UTF-8, as base64. Raises SerializationError for anything else."""
    return base64.b64encode(raw_bytes(value)).decode()


def _base64(value: Any) -> bytes:
    return base64.b64encode(raw_bytes(value))


def _from_base64(data: bytes) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise SerializationError(f"not base64: {error}") from error


def _unpickled(data: bytes) -> Any:
    """Reading a pickle runs code: only for topics whose writers are trusted."""
    try:
        return pickle.loads(base64.b64decode(data, validate=True))  # noqa: S301
    except AUTHORS_CODE_FAILED as error:  # unpickling may call classes of functions
        pass_on_interruption(error)
        raise SerializationError(f"not a pickle: {error}") from error


def _pickled(value: Any) -> bytes:
    try:
        return base64.b64encode(pickle.dumps(value))
    except Exception as error:  # pickling may raise anything
        raise SerializationError(f"cannot pickle {type(value).__name__}: {error}") from error


VALUES: dict[SerializerName, Serializer] = {
    "json": Serializer(json_text.parse, _json),
    "raw": Serializer(bytes, raw_bytes),
    "binary": Serializer(_from_base64, _base64),
    "pickle": Serializer(_unpickled, _pickled),
}
"""The serializers of values. JSON lets bytes pass unencoded, as in Kaspr."""

KEYS: dict[SerializerName, Serializer] = {**VALUES, "json": Serializer(_parse_key, _json_key)}
"""The serializers of keys. JSON keys are canonical, so that equal keys are equal bytes and reach the same partition."""


def encode_key(name: SerializerName, key: Any) -> bytes | None:
    """The bytes of a record's key. Raises SerializationError."""
    return None if key is None else KEYS[name].encode(key)


def encode_value(name: SerializerName, value: Any) -> bytes | None:
    """The bytes of a record's value; None is a tombstone. Raises SerializationError."""
    return None if value is None else VALUES[name].encode(value)


def decode(name: SerializerName, data: bytes | None) -> Any:
    """The object that a function sees for the bytes of a key or value. Raises SerializationError."""
    return None if data is None else VALUES[name].decode(data)

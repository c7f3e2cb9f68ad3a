"""The four serializers of topics: bytes on a topic to the objects that functions see, and back.

``None`` stands for "no bytes" in both directions: a tombstone, a missing key. JSON ``null`` is also read as ``None``.
"""

from __future__ import annotations

import base64
import binascii
import pickle
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED, pass_on_interruption
from kaspr_delta.plan.definition.resources import SerializerName
from kaspr_delta.serde import json_text


def raw_bytes(value: Any) -> bytes:
    """Bytes unchanged, text as UTF-8. Raises SerializationError for anything else."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        msg = f"raw keys and values are bytes or text, not {type(value).__name__}"
        raise SerializationError(msg)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        msg = f"no UTF-8 for {value[:30]!r}: {error}"
        raise SerializationError(msg) from error


class Serializer(Protocol):
    """Bytes to objects and back. Both directions raise SerializationError."""

    def decode(self, data: bytes) -> Any:
        """The object that the bytes stand for."""

    def encode(self, value: Any) -> bytes:
        """The bytes of an object."""


# The same few keys come again and again. Only text is cached, because it is immutable.
_parse_text = lru_cache(maxsize=100_000)(json_text.parse)


def _parse_key(text: str | bytes) -> Any:
    return _parse_text(text) if text[:1] == b'"' else json_text.parse(text)


class _Json:
    """JSON text in UTF-8; bytes pass through unencoded, as in Kaspr."""

    decode = staticmethod(json_text.parse)

    def encode(self, value: Any) -> bytes:
        return value if isinstance(value, bytes) else json_text.value_text(value).encode()


class _JsonKey(_Json):
    """JSON keys are canonical, so that equal keys are equal bytes and reach the same partition."""

    decode = staticmethod(_parse_key)

    def encode(self, value: Any) -> bytes:
        return value if isinstance(value, bytes) else json_text.canonical_key(value).encode()


class _Raw:
    """Bytes unchanged; text as UTF-8."""

    def decode(self, data: bytes) -> Any:
        return data

    def encode(self, value: Any) -> bytes:
        return raw_bytes(value)


class _Binary(_Raw):
    """Bytes as base64."""

    def decode(self, data: bytes) -> Any:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            msg = f"not base64: {error}"
            raise SerializationError(msg) from error

    def encode(self, value: Any) -> bytes:
        return base64.b64encode(super().encode(value))


class _Pickle:
    """Pickled objects as base64. Reading a pickle runs code: only for topics whose writers are trusted."""

    def decode(self, data: bytes) -> Any:
        try:
            return pickle.loads(base64.b64decode(data, validate=True))  # noqa: S301
        except AUTHORS_CODE_FAILED as error:  # unpickling may call classes of functions
            pass_on_interruption(error)
            msg = f"not a pickle: {error}"
            raise SerializationError(msg) from error

    def encode(self, value: Any) -> bytes:
        try:
            return base64.b64encode(pickle.dumps(value))
        except Exception as error:  # pickling may raise anything
            msg = f"cannot pickle {type(value).__name__}: {error}"
            raise SerializationError(msg) from error


_VALUES: dict[SerializerName, Serializer] = {"json": _Json(), "raw": _Raw(), "binary": _Binary(), "pickle": _Pickle()}
_KEYS: dict[SerializerName, Serializer] = {**_VALUES, "json": _JsonKey()}


def encode_key(name: SerializerName, key: Any) -> bytes | None:
    """The bytes of a record's key. Raises SerializationError."""
    return None if key is None else _KEYS[name].encode(key)


def encode_value(name: SerializerName, value: Any) -> bytes | None:
    """The bytes of a record's value; None is a tombstone. Raises SerializationError."""
    return None if value is None else _VALUES[name].encode(value)


def encoder(name: SerializerName) -> Callable[[Any], bytes]:
    """The function that encodes a value that is not None. It raises SerializationError."""
    return _VALUES[name].encode


def decoder(name: SerializerName) -> Callable[[bytes], Any]:
    """The function that decodes the bytes of a value. It raises SerializationError."""
    return _VALUES[name].decode


def key_decoder(name: SerializerName) -> Callable[[bytes], Any]:
    """The function that decodes the bytes of a key. It raises SerializationError."""
    return _KEYS[name].decode


def decode(name: SerializerName, data: bytes | None) -> Any:
    """The object that a function sees for the bytes of a key or value. Raises SerializationError."""
    return None if data is None else _VALUES[name].decode(data)

"""Keys and values of tables as text: what joins compare and tables store.

A ``json`` table stores canonical key text and value text in STRING columns; a ``raw`` table stores bytes in BINARY
columns, which joins and functions handle as base64 text, so that one engine serves both.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition import SerializerName, Serializers
from kaspr_delta.serde import json_text


@dataclass(frozen=True, slots=True)
class TableText:
    """The text forms of one table's keys and values. All methods raise SerializationError."""

    serializers: Serializers

    def key(self, key: Any) -> str:
        """The text under which a key is stored and looked up."""
        if key is None:
            msg = "None is no key"
            raise SerializationError(msg)
        if self.serializers.key == "raw":
            return _base64(key)
        # Bytes that already are JSON text get encoded once more, as Kaspr's guide describes for mismatched serializers.
        return json_text.canonical_key(_text_of(key) if isinstance(key, bytes) else key)

    def key_object(self, text: str) -> Any:
        """The key that a text stands for; lists become tuples, so that they can be dictionary keys."""
        return base64.b64decode(text) if self.serializers.key == "raw" else hashable(json_text.parse(text))

    def value(self, value: Any) -> str:
        """The text of a value."""
        return _base64(value) if self.serializers.value == "raw" else json_text.value_text(value)

    def value_object(self, text: str) -> Any:
        """The value that a text stands for, a fresh object at every call."""
        return base64.b64decode(text) if self.serializers.value == "raw" else json_text.parse(text)

    def is_key(self, text: str) -> bool:
        """Whether the text is a key as this table spells it; always so for bytes."""
        return self.serializers.key == "raw" or json_text.is_canonical(text)


def hashable(key: Any) -> Any:
    """A decoded key as a dictionary key: lists as tuples, objects as tuples of pairs."""
    if isinstance(key, list):
        return tuple(hashable(item) for item in key)
    if isinstance(key, dict):
        return tuple((name, hashable(item)) for name, item in key.items())
    return key


def column_type(serializer: SerializerName) -> str:
    """The Delta type of a column that holds this table serializer's keys or values."""
    return "BINARY" if serializer == "raw" else "STRING"


def _base64(value: Any) -> str:
    if isinstance(value, str):
        value = value.encode()
    if not isinstance(value, bytes):
        msg = f"a raw table holds bytes or text, not {type(value).__name__}"
        raise SerializationError(msg)
    return base64.b64encode(value).decode()


def _text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        msg = f"bytes that are not UTF-8 cannot be a JSON key: {data[:30]!r}"
        raise SerializationError(msg) from error

"""Keys and values of tables as text: joins compare this text, tables store it.

A ``json`` table stores canonical key text and value text in STRING columns. A ``raw`` table stores bytes in BINARY
columns; the engine handles them as base64 text, so that one engine serves both. Functions see bytes.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.resources import SerializerName, Serializers
from kaspr_delta.serde import json_text
from kaspr_delta.serde.serializers import base64_text

_NULL = "null"  # JSON's null: no key, and as a value no row


@dataclass(frozen=True, slots=True)
class TableText:
    """The text forms of one table's keys and values. All methods raise SerializationError."""

    serializers: Serializers

    def key(self, key: Any) -> str:
        """The text under which a key is stored and looked up."""
        if key is not None and self.serializers.key == "raw":
            return base64_text(key)
        if type(key) is str:
            return json_text.text_key(key)
        # Bytes that already are JSON text are encoded once more, as Kaspr's guide describes for mismatched serializers.
        text = json_text.canonical_key(_text_of(key) if isinstance(key, bytes) else key)
        if text == _NULL:
            raise SerializationError(f"{key!r} is no key")
        return text

    def foreign_key(self, key: Any) -> str | None:
        """The text of a key that a function returned: like ``key``, but for raw keys the function must return bytes."""
        if self.serializers.key == "raw" and not isinstance(key, bytes):
            msg = f"the table has raw keys, which are bytes, and the function gave {type(key).__name__}"
            raise SerializationError(msg)
        return self.key(key)

    def of_line(self, key: Any) -> Any:
        """The key that a key of JSON lines stands for, as `dump` prints it."""
        return key

    def key_object(self, text: str) -> Any:
        """The key that a text stands for, as a dictionary key: lists are tuples, objects are ObjectKeys."""
        return hashable(self.event_key(text))

    def event_key(self, text: str) -> Any:
        """The key that a text stands for, as on a topic."""
        return base64.b64decode(text) if self.serializers.key == "raw" else json_text.parse(text)

    def value(self, value: Any) -> str | None:
        """The text of a value; None if there is no row: for None, and for a value that JSON writes as ``null``."""
        if value is None:
            return None
        if self.serializers.value == "raw":
            return base64_text(value)
        text = json_text.value_text(value)
        return None if text == _NULL else text

    def row(self, key: Any, value: Any) -> str | None:  # noqa: ARG002  typed tables have the key in their rows
        """The text of the value that is written under a key; None if there is no row."""
        return self.value(value)

    def value_object(self, text: str) -> Any:
        """The value that a text stands for, a new object at every call."""
        return base64.b64decode(text) if self.serializers.value == "raw" else json_text.parse(text)

    def of_json(self, parsed: Any) -> Any:
        """The value that parsed JSON stands for."""
        return parsed

    def is_key(self, text: str) -> bool:
        """Whether the text is a key as this table spells it; always true for raw keys."""
        return self.serializers.key == "raw" or (text != _NULL and json_text.is_canonical(text))


class ObjectKey(dict[str, Any]):
    """A JSON object that is a key: a hashable dictionary, equal to any dictionary with the same items."""

    def __hash__(self) -> int:  # type: ignore[override]  # dict has None because it is mutable; keys do not change
        return hash(frozenset(self.items()))


def hashable(key: Any) -> Any:
    """A decoded key as a dictionary key with the same JSON text: lists as tuples, objects as ObjectKeys."""
    if isinstance(key, list):
        return tuple(hashable(item) for item in key)
    if isinstance(key, dict):
        return ObjectKey({name: hashable(item) for name, item in key.items()})
    return key


def column_type(serializer: SerializerName) -> str:
    """The Delta type of a column that holds keys or values of this table serializer."""
    return "BINARY" if serializer == "raw" else "STRING"


def _text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SerializationError(f"bytes that are not UTF-8 cannot be a JSON key: {data[:30]!r}") from error

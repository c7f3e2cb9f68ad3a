"""Records as dictionaries with key, value, timestamp (milliseconds), headers and partition.

Also the arguments of ``put``, ``delete`` and ``produce``: ambiguous ones are refused.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.engine.streams.event import this_millisecond
from kaspr_delta.engine.streams.output import MOST_PARTITIONS, Topics, headers
from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.instants import EPOCH, microseconds
from kaspr_delta.serde.json_text import value_text
from kaspr_delta.serde.serializers import decode, encode_key, encode_value

ANY_KEY: Any = object()
"""Stands for the key of a selection that has none: also None is a key."""

FIELDS = ("key", "value", "timestamp", "headers", "partition")
"""The fields of a record; only the value is required."""


_RECORD = {"key", "value"}
_TEXT = (str, bytes, bytearray)


def rows_given(rows: Mapping[Any, Any] | Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """The rows of ``put`` as pairs of key and value.

    They are given as a mapping, or as an iterable of pairs, or of records with exactly ``key`` and ``value``. Raises
    UsageError for anything else, naming the item, and for a mapping that looks like one record.
    """
    if isinstance(rows, Mapping):
        if _is_record(rows):
            shown = reprlib.repr(dict(rows))
            msg = f"{shown} may be one record, or two rows with the keys 'key' and 'value': write put([{shown}])"
            raise UsageError(f"{msg} for the record, or put([('key', …), ('value', …)]) for the two rows")
        yield from rows.items()
        return
    if isinstance(rows, _TEXT) or not isinstance(rows, Iterable):
        raise UsageError(
            f"put takes rows, not {reprlib.repr(rows)}: write put({{key: value}}) or put([(key, value), …])"
        )
    for number, row in enumerate(rows, start=1):
        if isinstance(row, Mapping) and set(row) == _RECORD:
            yield row["key"], row["value"]
        elif isinstance(row, Sequence) and not isinstance(row, _TEXT) and len(row) == len(_RECORD):
            yield row[0], row[1]
        else:
            msg = f"row {number} of put, {reprlib.repr(row)}, is neither a pair (key, value) nor a record"
            raise UsageError(f"{msg} {{'key': …, 'value': …}} without further fields")


def keys_given(keys: Any) -> list[Any]:
    """The keys of ``delete``: one key, or an iterable of keys. Text, bytes, a tuple or a mapping is one key.

    Raises UsageError for a key that looks like a record.
    """
    several = isinstance(keys, Iterable) and not isinstance(keys, (*_TEXT, tuple, Mapping))
    wanted = list(keys) if several else [keys]
    for key in wanted:
        if isinstance(key, Mapping) and (_is_record(key) or set(key) == {"key"}):
            msg = f"delete takes keys, not a record like {reprlib.repr(dict(key))}: write delete({key['key']!r})"
            raise UsageError(f"{msg}, or, if this object is a key itself, put([(key, None)])")
    return wanted


def records_given(records: Any) -> Iterator[Mapping[str, Any]]:
    """The records of ``produce``. Raises UsageError for a single record, and, naming it, for an item that is none."""
    if isinstance(records, (*_TEXT, Mapping)) or not isinstance(records, Iterable):
        shown = reprlib.repr(records)
        right = f"[{shown}]" if isinstance(records, Mapping) else "[{'key': …, 'value': …}]"
        raise UsageError(f"produce takes a list of records, not {shown}: write produce({right})")
    for number, record in enumerate(records, start=1):
        if not isinstance(record, Mapping):
            raise UsageError(
                f"record {number} of produce, {reprlib.repr(record)}, is no record: write {{'key': …, 'value': …}}"
            )
        yield record


def _is_record(found: Mapping[Any, Any]) -> bool:
    """Whether a mapping has key and value, and no other fields than those of a record."""
    return _RECORD <= set(found) <= set(FIELDS)


def to_effect(record: Mapping[str, Any], topic: str, serializers: Serializers, topics: Topics) -> Effect:
    """The effect that appends a record to a topic. Raises UsageError or SerializationError for a malformed record."""
    unknown = sorted(map(str, set(record) - set(FIELDS)))
    if unknown or "value" not in record:
        what = f"unknown field {unknown[0]!r}" if unknown else "no field 'value'"
        hint = f"fields are {', '.join(FIELDS)}; only value is required"
        raise _refused(record, f"{what} ({hint})")
    key = encode_key(serializers.key, record.get("key"))
    value = encode_value(serializers.value, record["value"])
    partition = _partition(record)
    chosen = topics.partition(topic, key) if partition is None else partition
    return Effect("send", topic, key, value, _headers(record), _moment(record), chosen)


def to_record(row: Mapping[str, Any], serializers: Serializers) -> dict[str, Any]:
    """A row of a topic as a record. A key or value that cannot be decoded is shown as text, with an ``error``."""
    record: dict[str, Any] = {}
    for name, serializer in (("key", serializers.key), ("value", serializers.value)):
        try:
            record[name] = decode(serializer, row[name])
        except SerializationError as error:
            record[name] = bytes(row[name]).decode("utf-8", "replace")
            record["error"] = f"{name}: {error}"
    record["timestamp"] = milliseconds(row["timestamp"])
    record["headers"] = {h["key"]: _header_text(h["value"]) for h in row["headers"] or ()}
    record["partition"], record["offset"] = row["partition"], row["offset"]
    return record


def milliseconds(moment: datetime | None) -> int | None:
    """A timestamp as Kafka writes it: milliseconds since 1970."""
    return None if moment is None else microseconds(moment) // 1_000


def _moment(record: Mapping[str, Any]) -> int:
    given = record.get("timestamp")
    if given is None:
        return this_millisecond()
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise _refused(record, f"timestamp is milliseconds since 1970, not {given!r}")
    try:
        return microseconds(EPOCH + timedelta(milliseconds=math.floor(given)))
    except (OverflowError, ValueError):  # ValueError: not a number
        what = f"timestamp {given} is not between the years 1 and 9999 (milliseconds since 1970)"
        raise _refused(record, what) from None


def _partition(record: Mapping[str, Any]) -> int | None:
    given = record.get("partition")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < MOST_PARTITIONS:
        raise _refused(record, f"partition is a whole number from 0 on, not {given!r}")
    return given


def _headers(record: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    given = record.get("headers")
    if not given:
        return None
    if not isinstance(given, Mapping):
        raise _refused(record, f"headers are an object of names and texts, not {given!r}")
    try:
        return headers((name, _header_value(value)) for name, value in given.items())
    except UnicodeEncodeError as error:
        raise _refused(record, f"headers: {error}") from None


def _header_value(value: Any) -> Any:
    """A header's value; one that is no text is JSON text."""
    return value if value is None or isinstance(value, str | bytes) else value_text(value)


def _header_text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "replace")


def _refused(record: Mapping[str, Any], what: str) -> UsageError:
    return UsageError(f"record {reprlib.repr(dict(record))}: {what}")


def refuse_made(table: str, made_from: str | None) -> None:
    """Raise UsageError for a table that is made from another resource."""
    if made_from is not None:
        raise UsageError(f"table {table!r} is made from {made_from}: write to its sources instead")

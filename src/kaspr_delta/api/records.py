"""Records as dictionaries with key, value, timestamp (milliseconds), headers and partition."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.engine.streams.event import EPOCH, microseconds, this_millisecond
from kaspr_delta.engine.streams.output import MOST_PARTITIONS, Topics, headers
from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.serializers import decode, encode_key, encode_value

ANY_KEY: Any = object()
"""Stands for the key of a selection that has none: also None is a key."""

FIELDS = ("key", "value", "timestamp", "headers", "partition")
"""The fields of a record; only the value is required."""


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
        return headers(given.items())
    except UnicodeEncodeError as error:
        raise _refused(record, f"headers: {error}") from None


def _header_text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "replace")


def _refused(record: Mapping[str, Any], what: str) -> UsageError:
    return UsageError(f"record {reprlib.repr(dict(record))}: {what}")

"""Records as people write and read them: dictionaries with key, value, timestamp in milliseconds, headers, partition."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from kaspr_delta.engine.agent.effect import Effect
from kaspr_delta.engine.agent.output import Partitions
from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.plan.definition import Serializers
from kaspr_delta.serde.serializers import decode, encode_key, encode_value

_FIELDS = ("key", "value", "timestamp", "headers", "partition")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_effect(record: Mapping[str, Any], topic: str, serializers: Serializers, partitions: Partitions) -> Effect:
    """A record to append to a topic. Raises UsageError, or SerializationError, naming what is wrong with it."""
    unknown = sorted(set(record) - set(_FIELDS))
    if unknown or "value" not in record:
        what = f"unknown field {unknown[0]!r}" if unknown else "no field 'value'"
        msg = f"record {_shown(record)}: {what} (fields are {', '.join(_FIELDS)}; only key and value are needed)"
        raise UsageError(msg)
    key = encode_key(serializers.key, record.get("key"))
    value = encode_value(serializers.value, record["value"])
    partition = record.get("partition")
    chosen = partitions.of(topic, key) if partition is None else int(partition)
    return Effect("send", topic, key, value, _headers(record.get("headers")), _moment(record), chosen)


def to_record(row: Mapping[str, Any], serializers: Serializers) -> dict[str, Any]:
    """A row of a topic as a record. What its serializers cannot read is shown as text, with an ``error``."""
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
    """A timestamp as Kafka writes it."""
    if moment is None:
        return None
    aware = moment if moment.tzinfo is not None else moment.astimezone(timezone.utc)
    return (aware - _EPOCH) // timedelta(milliseconds=1)


def _moment(record: Mapping[str, Any]) -> datetime:
    given = record.get("timestamp")
    if given is None:
        return datetime.fromtimestamp(time.time(), timezone.utc)
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        msg = f"record {_shown(record)}: timestamp is milliseconds since 1970, not {given!r}"
        raise UsageError(msg)
    try:
        return _EPOCH + timedelta(milliseconds=given)
    except OverflowError:
        msg = f"record {_shown(record)}: timestamp {given} is beyond the year 9999 (milliseconds since 1970)"
        raise UsageError(msg) from None


def _headers(given: Any) -> list[dict[str, Any]] | None:
    if not given:
        return None
    if not isinstance(given, Mapping):
        msg = f"headers are an object of names and texts, not {given!r}"
        raise UsageError(msg)
    return [
        {"key": str(name), "value": value if value is None or isinstance(value, bytes) else str(value).encode()}
        for name, value in given.items()
    ]


def _header_text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "replace")


def _shown(record: Mapping[str, Any]) -> str:
    text = repr(dict(record))
    return text if len(text) <= 80 else text[:77] + "..."

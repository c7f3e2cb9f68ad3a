"""Records as they are read, and as functions see them: the event, its message, and the application around it."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa

from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.instants import microseconds
from kaspr_delta.serde.joined_text import JoinedText
from kaspr_delta.serde.serializers import KEYS, VALUES, decode
from kaspr_delta.storage.layout import RETRY_FOR


def this_millisecond() -> int:
    """The present time in microseconds, for a record without a time: Kafka has milliseconds."""
    return microseconds(datetime.now(timezone.utc)) // 1_000 * 1_000


def for_all_readers(rows: pa.Table) -> pa.Table:
    """The rows of a topic that are records for all readers: those that a retry sent to one of them are left out."""
    headers = rows["headers"].to_pylist()
    return rows.filter(pa.array([not any(h["key"] == RETRY_FOR for h in one or ()) for one in headers], pa.bool_()))


class InputRecord(NamedTuple):
    """A record as it is read from a topic or from a join's channel (there the value is ``{"left": …, "right": …}``).

    ``timestamp`` is in microseconds since 1970, as Delta has it.
    """

    source: str
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, Any]] | None
    timestamp: int | None
    partition: int
    offset: int


def records_of(rows: pa.RecordBatch | pa.Table) -> Iterator[InputRecord]:
    """Yield rows one by one, as InputRecord. Headers may be text or left out (see ``for_workers``)."""
    columns = [_column(rows, name) for name in InputRecord._fields]
    return map(InputRecord._make, zip(*columns, strict=True))


@dataclass(frozen=True, slots=True)
class Message:
    """The record behind an event: ``key`` and ``value`` are bytes, ``timestamp`` is Unix seconds."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: float | None
    headers: dict[str, bytes]


class Event:
    """``context["event"]``: key and value decoded, headers by name. Rarely used properties are made when asked for."""

    __slots__ = ("_headers", "_record", "key", "value")

    def __init__(self, record: InputRecord, key: Any, value: Any) -> None:
        self.key = key
        self.value = value
        self._record = record
        self._headers: dict[str, bytes] | None = None

    @property
    def headers(self) -> dict[str, bytes]:
        if self._headers is None:
            self._headers = {header["key"]: header["value"] for header in self._record.headers or ()}
        return self._headers

    @property
    def message(self) -> Message:
        """The record as it is on its topic."""
        source, key, value, _, moment, partition, offset = self._record
        timestamp = None if moment is None else moment / 1_000_000
        return Message(key, value, source, partition, offset, timestamp, self.headers)


class JoinedValue(dict[str, Any]):
    """A value of a channel: ``value["left"]`` and ``value.left`` both work. ``right`` is None without a match."""

    @property
    def left(self) -> Any:
        return self["left"]

    @property
    def right(self) -> Any:
        """The value of the matching right row, or None."""
        return self["right"]


@dataclass(frozen=True, slots=True)
class AppConfiguration:
    """``context["app"].conf``."""

    name: str
    id: str


@dataclass(frozen=True, slots=True)
class App:
    """``context["app"]``: the application, as its functions see it."""

    conf: AppConfiguration
    log: logging.Logger = field(repr=False)
    should_stop: bool = False

    @classmethod
    def of(cls, name: str, application_id: str) -> App:
        return cls(AppConfiguration(name, application_id), logging.getLogger(f"kaspr_delta.app.{name}"))

    def is_leader(self) -> bool:
        """Whether this instance leads: always, because one query is the only reader of its input."""
        return True


Decoder = Callable[[InputRecord], tuple[Any, Any]]
"""Decodes a record to its key and value, as functions see them. Raises SerializationError."""


class TopicDecoder:
    """Decodes records of a topic; ``key`` and ``value`` decode bytes."""

    __slots__ = ("key", "value")

    def __init__(self, serializers: Serializers) -> None:
        self.key = KEYS[serializers.key].decode
        self.value = VALUES[serializers.value].decode

    def __call__(self, record: InputRecord) -> tuple[Any, Any]:
        key, value = record[1], record[2]
        return None if key is None else self.key(key), None if value is None else self.value(value)


@dataclass(frozen=True, slots=True)
class ChannelDecoder:
    """Decodes records of a join's channel; values are JoinedValues."""

    texts: JoinedText

    def __call__(self, record: InputRecord) -> tuple[Any, Any]:
        key = None if record.key is None else self.texts.keys.event_key(record.key.decode())
        return key, None if record.value is None else JoinedValue(self.texts.value(decode("json", record.value)))

    def shown(self, value: bytes) -> bytes:
        """The value of a record as people see it on the channel."""
        return self.texts.shown(decode("json", value)).encode()


def _column(rows: pa.RecordBatch | pa.Table, name: str) -> Iterable[Any]:
    """A field of all records. Shortcuts: most columns of text and headers have only one value."""
    if name not in rows.schema.names:
        return repeat(None, rows.num_rows)
    column = rows.column(name)
    if column.null_count == len(column):
        return repeat(None, len(column))
    if name == "headers" and pa.types.is_string(column.type):
        return (None if text is None else list(map(_header, json.loads(text))) for text in column.to_pylist())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    elif pa.types.is_string(column.type) and len(found := column.unique()) == 1:
        return repeat(found[0].as_py(), len(column))
    values: list[Any] = column.to_pylist()
    return values


def _header(encoded: dict[str, str | None]) -> dict[str, Any]:
    value = encoded["value"]
    return {"key": encoded["key"], "value": None if value is None else base64.b64decode(value)}

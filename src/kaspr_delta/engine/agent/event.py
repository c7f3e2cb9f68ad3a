"""What a function sees of a record: the event, its message, and the application around it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple

from kaspr_delta.plan.definition import Serializers
from kaspr_delta.serde.serializers import decode, decoder
from kaspr_delta.serde.table_text import TableText

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
"""What times are counted from."""


class InputRecord(NamedTuple):
    """A record as it is read: of a topic, or of a join's channel (whose value is ``{"left": …, "right": …}``)."""

    source: str
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, Any]] | None
    timestamp: datetime | None
    partition: int
    offset: int


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
    """``context["event"]``: key and value decoded, headers by name. What few functions ask for is made when asked."""

    __slots__ = ("_headers", "_record", "key", "value")

    def __init__(self, record: InputRecord, key: Any, value: Any) -> None:
        self.key = key
        self.value = value
        self._record = record
        self._headers: dict[str, bytes] | None = None

    @property
    def headers(self) -> dict[str, bytes]:
        """The record's headers by name."""
        if self._headers is None:
            self._headers = {header["key"]: header["value"] for header in self._record.headers or ()}
        return self._headers

    @property
    def message(self) -> Message:
        """The record as it is on its topic."""
        source, key, value, _, moment, partition, offset = self._record
        timestamp = None if moment is None else moment.timestamp()
        return Message(key, value, source, partition, offset, timestamp, self.headers)


class JoinedValue(dict[str, Any]):
    """What a channel delivers: ``value["left"]`` and ``value.left`` both work, ``right`` is None without a match."""

    @property
    def left(self) -> Any:
        """The full value of the left row."""
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
    """``context["app"]``: what functions may ask of their application."""

    conf: AppConfiguration
    log: logging.Logger = field(repr=False)
    should_stop: bool = False

    @classmethod
    def of(cls, name: str, application_id: str) -> App:
        """The application of that name."""
        return cls(AppConfiguration(name, application_id), logging.getLogger(f"kaspr_delta.app.{name}"))

    def is_leader(self) -> bool:
        """Whether this instance leads: always, for one query is the only reader of its input."""
        return True


Decoder = Callable[[InputRecord], Event]


@dataclass(frozen=True, slots=True)
class TopicDecoder:
    """Records of a topic to events. Raises SerializationError."""

    serializers: Serializers
    _key: Callable[[bytes], Any] = field(init=False, repr=False, compare=False)
    _value: Callable[[bytes], Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_key", decoder(self.serializers.key))
        object.__setattr__(self, "_value", decoder(self.serializers.value))

    def __call__(self, record: InputRecord) -> Event:
        """The event of a record."""
        _, key, value, *_ = record
        return Event(record, None if key is None else self._key(key), None if value is None else self._value(value))


@dataclass(frozen=True, slots=True)
class ChannelDecoder:
    """Records of a join's channel to events with a JoinedValue. Raises SerializationError."""

    left: TableText
    right: TableText

    def __call__(self, record: InputRecord) -> Event:
        """The event of a record."""
        key = None if record.key is None else self.left.event_key(record.key.decode())
        if record.value is None:
            return Event(record, key, None)
        texts: dict[str, str | None] = decode("json", record.value)
        left, right = texts["left"], texts["right"]
        value = JoinedValue(
            left=None if left is None else self.left.value_object(left),
            right=None if right is None else self.right.value_object(right),
        )
        return Event(record, key, value)

"""Settings of an application for all its resources, and their defaults."""

from __future__ import annotations

from dataclasses import dataclass

from kaspr_delta.plan.definition.resources import SerializerName, Serializers
from kaspr_delta.spec.app import AppSpec, OnGap
from kaspr_delta.spec.durations import milliseconds

_PARTITIONS = 3
_EVENT_TIMEOUT = 300_000


@dataclass(frozen=True, slots=True)
class Defaults:
    """Resolved ``config`` of a KasprApp: by default json keys, json values, 3 partitions and 5 minutes per event.

    ``feed_retention`` is None if it is not set.
    """

    serializers: Serializers
    partitions: int
    event_timeout: int
    feed_retention: int | None
    on_gap: OnGap

    def with_own(self, key: SerializerName | None, value: SerializerName | None) -> Serializers:
        """The serializers of a topic: its own ones or, by default, those of the application."""
        return Serializers(key or self.serializers.key, value or self.serializers.value)


def defaults_of(spec: AppSpec | None) -> Defaults:
    """The defaults of an application, also of one without a KasprApp."""
    config = (spec or AppSpec()).config
    serializers = Serializers(config.key_serializer or "json", config.value_serializer or "json")
    timeout = milliseconds(config.event_timeout) if config.event_timeout else _EVENT_TIMEOUT
    retention = milliseconds(config.feed_retention) if config.feed_retention else None
    return Defaults(serializers, config.topic_partitions or _PARTITIONS, timeout, retention, config.on_gap or "fail")

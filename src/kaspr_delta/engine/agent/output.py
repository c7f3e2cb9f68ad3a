"""Sends: which topic, key, value, partition and headers a pipeline value becomes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from kaspr_delta.engine.agent.effect import Effect
from kaspr_delta.functions.call import call
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition import SendPlan
from kaspr_delta.serde.serializers import encode_key, encode_value


@dataclass(frozen=True, slots=True)
class Partitions:
    """How many partitions each topic has."""

    known: Mapping[str, int]
    default: int

    def of(self, topic: str, key: bytes | None) -> int:
        """The partition of a key. Equal keys go to the same one; records without a key to the first."""
        return 0 if key is None else zlib.crc32(key) % self.known.get(topic, self.default)


@cache
def selector(snippet: Snippet) -> Callable[..., Any]:
    """A selector's function, executed once in an empty scope: it sees neither ``init`` nor ``context``."""
    return snippet.function({})


def send(
    plan: SendPlan, value: Any, offered: Mapping[str, Any], partitions: Partitions, timestamp: datetime | None
) -> Effect | None:
    """The record to append to a topic, or None when the predicate declines.

    All selectors see the pipeline value. Evaluated in Kaspr's order: predicate, name, key, value, partition, headers.
    Raises whatever the author's selectors raise, SerializationError, and ValueError for a name that is no text.
    """
    if plan.predicate is not None and not _select(plan.predicate, value, offered):
        return None
    topic = plan.topic if plan.name_selector is None else _select(plan.name_selector, value, {})
    if not isinstance(topic, str) or not topic:
        msg = f"nameSelector must return the name of a topic, not {topic!r}"
        raise ValueError(msg)
    key = encode_key(plan.serializers.key, _select(plan.key_selector, value, offered) if plan.key_selector else None)
    selected = _select(plan.value_selector, value, offered) if plan.value_selector else value
    data = encode_value(plan.serializers.value, selected)
    chosen = _select(plan.partition_selector, value, offered) if plan.partition_selector else None
    headers = _headers(_select(plan.headers_selector, value, offered)) if plan.headers_selector else None
    partition = partitions.of(topic, key) if chosen is None else int(chosen)
    return Effect("send", topic, key, data, headers, timestamp, partition)


def _select(snippet: Snippet, value: Any, offered: Mapping[str, Any]) -> Any:
    return call(selector(snippet), value, offered)


def _headers(selected: Any) -> list[dict[str, Any]] | None:
    if not selected:
        return None
    pairs = selected.items() if isinstance(selected, Mapping) else selected
    return [{"key": str(name), "value": _header_value(value)} for name, value in pairs]


def _header_value(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()

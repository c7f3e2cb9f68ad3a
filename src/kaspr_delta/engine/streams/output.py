"""Sends: how a pipeline value becomes a record, with topic, key, value, partition and headers."""

from __future__ import annotations

import operator
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.functions.call import call
from kaspr_delta.functions.snippet import Snippet, in_empty_scope
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import SendPlan, TablePlan
from kaspr_delta.plan.names import topic_table
from kaspr_delta.serde.serializers import encode_key, encode_value

# The topic names that Kafka accepts.
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
MOST_PARTITIONS = 2**31


def partition_in(partitions: int, key: bytes | None) -> int:
    """The partition of a key. Equal keys have the same one; records without a key go to the first."""
    return 0 if key is None else zlib.crc32(key) % partitions


@dataclass(frozen=True, slots=True)
class Topics:
    """The existing topics: the number of partitions by topic, names by Delta table, and changelogs."""

    partitions: Mapping[str, int]
    default_partitions: int
    names: Mapping[str, str] = field(default_factory=dict)
    changelogs: Mapping[str, TablePlan] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, made: Iterable[str] = ()) -> Topics:
        """The topics of a plan, and the topics ``made`` because a function named them."""
        partitions = {topic.name: topic.partitions for topic in plan.topics}
        names = {topic_table(name): name for name in (*made, *partitions)}
        return cls(partitions, plan.default_partitions, names, {table.changelog: table for table in plan.tables})

    def partition(self, topic: str, key: bytes | None) -> int:
        """The partition of a key in a topic."""
        return partition_in(self.partitions.get(topic, self.default_partitions), key)

    def checked(self, selected: Any) -> str:
        """Check that a nameSelector's result can be the name of a topic, and return it. Raises ValueError."""
        if not isinstance(selected, str) or not _TOPIC.fullmatch(selected):
            msg = f"nameSelector must return a topic's name (letters, digits, '.', '_' and '-'), not {selected!r}"
            raise ValueError(msg)
        owner = self.names.get(topic_table(selected), selected)
        if owner != selected:
            msg = f"topic {selected!r} would share the Delta name {topic_table(selected)!r} with topic {owner!r}"
            raise ValueError(msg)
        return selected


def send(
    plan: SendPlan, value: Any, offered: Mapping[str, Any], topics: Topics, timestamp: int | None
) -> Effect | None:
    """Return the record to append to a topic, or None if the predicate declines.

    All selectors see the pipeline value. They are evaluated in Kaspr's order: predicate, name, key, value, partition,
    headers. Raises the errors of the author's selectors, SerializationError, and ValueError or TypeError for invalid
    results of selectors. A returned record can always be written.
    """
    if plan.predicate is not None and not _select(plan.predicate, value, offered):
        return None
    topic = plan.topic if plan.name_selector is None else topics.checked(_select(plan.name_selector, value, {}))
    if topic is None:
        msg = "a send needs a topic or a nameSelector"
        raise ValueError(msg)
    key = encode_key(plan.serializers.key, _select(plan.key_selector, value, offered) if plan.key_selector else None)
    selected = _select(plan.value_selector, value, offered) if plan.value_selector else value
    data = encode_value(plan.serializers.value, selected)
    chosen = _select(plan.partition_selector, value, offered) if plan.partition_selector else None
    headers = _headers(_select(plan.headers_selector, value, offered)) if plan.headers_selector else None
    partition = topics.partition(topic, key) if chosen is None else _partition(chosen)
    return Effect("send", topic, key, data, headers, timestamp, partition)


def _select(snippet: Snippet, value: Any, offered: Mapping[str, Any]) -> Any:
    return call(in_empty_scope(snippet), value, offered)


def _partition(selected: Any) -> int:
    partition = operator.index(selected)  # TypeError if it is no whole number
    if not 0 <= partition < MOST_PARTITIONS:
        msg = f"partitionSelector must return the number of a partition, not {selected!r}"
        raise ValueError(msg)
    return partition


def _headers(selected: Any) -> list[dict[str, Any]] | None:
    if not selected:
        return None
    return headers(selected.items() if isinstance(selected, Mapping) else selected)


def headers(pairs: Iterable[tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Headers of a record: names as text, values as bytes. Raises UnicodeEncodeError for text that has no UTF-8."""
    return [{"key": str(name).encode().decode(), "value": _header_value(value)} for name, value in pairs]


def _header_value(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()

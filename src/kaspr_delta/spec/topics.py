"""Topics as agents read and write them, and streams as sides of joins and origins of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from kaspr_delta.spec.base import (
    Boolean,
    Integer,
    PositiveInteger,
    Problem,
    Spec,
    Text,
    TextMap,
    checked,
    exactly_one,
    optional,
)
from kaspr_delta.spec.patterns import pattern_problem
from kaspr_delta.spec.resource import Code, TopicSerializer

RETENTION = "retention.ms"
CLEANUP = "cleanup.policy"
WITH_EFFECT = frozenset({RETENTION, CLEANUP})

# Kafka's own default for deletion of old records: seven days, in milliseconds.
DEFAULT_RETENTION = 7 * 24 * 3_600_000

_POLICIES = frozenset({"compact", "delete"})
_WHOLE_NUMBER = re.compile(r"-1|\d+", re.ASCII)


def deletes(configs: Mapping[str, str], default: str) -> bool:
    """Whether old records are deleted. ``default`` is the policy if none is set: topics delete, changelogs compact."""
    return "delete" in _policies(configs, default)


def retention(configs: Mapping[str, str]) -> int | None:
    """How long records are kept, in milliseconds; None if they are kept for ever, or if nothing is set."""
    given = int(configs.get(RETENTION, -1))
    return None if given == -1 else given


def _config_problems(configs: Mapping[str, str]) -> Iterator[Problem]:
    if RETENTION in configs and not _WHOLE_NUMBER.fullmatch(configs[RETENTION]):
        hint = "a whole number of milliseconds, or -1 for ever"
        yield Problem(f"'{configs[RETENTION]}' is no {RETENTION}", hint, (RETENTION,))
    if unknown := sorted(_policies(configs, "compact") - _POLICIES):
        yield Problem(f"'{unknown[0]}' is no {CLEANUP}", "'compact', 'delete' or 'compact,delete'", (CLEANUP,))


def _policies(configs: Mapping[str, str], default: str) -> set[str]:
    return {policy.strip() for policy in configs.get(CLEANUP, default).split(",")}


TopicConfig = Annotated[TextMap, checked(_config_problems)]
"""Settings of a topic: those that have an effect are checked."""

_TOPIC_NAME = re.compile(r"^[A-Za-z0-9._-]{1,249}\Z")


def _name_problems(name: str) -> Iterator[Problem]:
    if not _TOPIC_NAME.match(name):
        yield Problem(f"'{name}' is no topic name", "letters, digits, '.', '_' and '-', at most 249")


TopicName = Annotated[Text, checked(_name_problems)]


class TopicDeclaration(Spec):
    """How a topic is to be made in Kafka."""

    declare: Boolean | None = None
    partitions: PositiveInteger | None = optional("how many partitions the topic has")
    retention: Integer | None = optional("how many seconds records are kept")
    compacting: Boolean | None = None
    deleting: Boolean | None = None
    replicas: PositiveInteger | None = None
    config: TopicConfig = Field(
        default_factory=dict, description="of the topic; `cleanup.policy` and `retention.ms` have an effect"
    )


class InputTopic(TopicDeclaration):
    """The topics an agent reads: one name, several separated by commas, or a pattern."""

    name: Text | None = optional("one topic, or several separated by commas")
    pattern: Text | None = optional("a regular expression: every topic whose whole name matches")
    key_serializer: TopicSerializer | None = optional("how keys are read; without it as the application does")
    value_serializer: TopicSerializer | None = optional("how values are read; without it as the application does")

    @property
    def names(self) -> tuple[str, ...]:
        """The topics by name, without repetitions."""
        return tuple(dict.fromkeys(name.strip() for name in (self.name or "").split(",") if name.strip()))

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        hint = "for example `topic: {name: raw-orders}`"
        yield from exactly_one(written, ("name", "pattern"), "a topic to read", hint)

    def problems(self) -> Iterator[Problem]:
        if self.name is not None and not all(part.strip() for part in self.name.split(",")):
            yield Problem(f"'{self.name}' holds an empty topic name", "names are separated by single commas", ("name",))
        for name in self.names:
            yield from (problem.below("name") for problem in _name_problems(name))
        if self.pattern is not None and (problem := pattern_problem(self.pattern)):
            hint = "an example is `pattern: (?!internal-).*`"
            yield Problem(f"'{self.pattern}' is no pattern for topics: {problem}", hint, ("pattern",))


class SendTarget(TopicDeclaration):
    """Where a value is sent, and what becomes its key, value, partition and headers."""

    name: TopicName | None = optional("the topic")
    name_selector: Code | None = optional("a Python function that returns the topic's name")
    key_selector: Code | None = optional("a Python function that returns the record's key")
    value_selector: Code | None = optional("a Python function that returns the record's value")
    partition_selector: Code | None = optional("a Python function that returns the number of the partition")
    headers_selector: Code | None = optional("a Python function that returns the headers, as a mapping")
    predicate: Code | None = optional("a Python function that says whether to send at all")
    key_serializer: TopicSerializer | None = optional("how keys are written; without it as the application does")
    value_serializer: TopicSerializer | None = optional("how values are written; without it as the application does")
    ack: Boolean = Field(default=False, description="give the next operation the record's metadata")

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        hint = "for example `name: enriched-orders`"
        yield from exactly_one(written, ("name", "nameSelector"), "a topic to send to", hint)


class OutputTopic(SendTarget):
    """A topic that receives every result of a pipeline."""


class TopicSend(SendTarget):
    """An operation that sends; ``passThrough`` hands the value on to the next operation."""

    pass_through: Boolean = Field(default=False, description="hand the value on to the next operation")


class StreamSide(Spec):
    """The records of a topic or of a join's channel, as they come."""

    topic: TopicName | None = optional("the name of a topic")
    channel: Text | None = optional("the outputChannel of a KasprJoin")
    key_serializer: TopicSerializer | None = optional("how keys are read; without it as the application does")
    value_serializer: TopicSerializer | None = optional("how values are read; without it as the application does")
    partitions: PositiveInteger | None = optional("how many partitions the topic has")

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        hint = "`topic: NAME` for a topic, `channel: NAME` for the channel of a join"
        yield from exactly_one(written, ("topic", "channel"), "a stream", hint)


class Origin(StreamSide):
    """The origin of a table: a stream, another table, or a join, which stands for its results."""

    table: Text | None = optional("the name of a KasprTable, or of a join with a result table")
    join: Text | None = optional("the name of a KasprJoin")

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        hint = "for example `table: orders`, `topic: raw-orders`, `channel: NAME` or `join: NAME`"
        origins = ("table", "topic", "channel", "join")
        yield from exactly_one(written, origins, "the origin of a table under 'from'", hint)
        given = [name for name in ("table", "join") if written.get(name) is not None]
        for field in ("keySerializer", "valueSerializer", "partitions"):
            if given and written.get(field) is not None:
                message = f"'{field}' is for a topic, and 'from' names a {given[0]} (at {{other}})"
                yield Problem(message, f"remove it: a {given[0]} has its own", (field,), (given[0],))

"""Streams as a side of a join, and the origins of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kaspr_delta.spec.base import PositiveInteger, Problem, Spec, Text, at_least_one, one_of, optional
from kaspr_delta.spec.near import listing
from kaspr_delta.spec.resource import TopicSerializer
from kaspr_delta.spec.topics import TopicName


class StreamSide(Spec):
    """The records of a topic or of a join's channel, as they come."""

    topic: TopicName | None = optional("the name of a topic")
    channel: Text | None = optional("the outputChannel of a KasprJoin")
    key_serializer: TopicSerializer | None = optional("how keys are read; without it as the application does")
    value_serializer: TopicSerializer | None = optional("how values are read; without it as the application does")
    partitions: PositiveInteger | None = optional("how many partitions the topic has")

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        yield from _one_source(
            ("topic", "channel"),
            written,
            "a stream",
            "`topic: NAME` for a topic, `channel: NAME` for the channel of a join",
        )


class Origin(StreamSide):
    """The origin of a table: a stream, another table, or a join, which stands for its results."""

    table: Text | None = optional("the name of a KasprTable, or of a join with a result table")
    join: Text | None = optional("the name of a KasprJoin")

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        hint = "for example `table: orders`, `topic: raw-orders`, `channel: NAME` or `join: NAME`"
        yield from _one_source(
            ("table", "topic", "channel", "join"), written, "the source of a table under 'from'", hint
        )
        given = [name for name in ("table", "join") if written.get(name) is not None]
        for field in ("keySerializer", "valueSerializer", "partitions"):
            if given and written.get(field) is not None:
                message = f"'{field}' is for a topic, and 'from' names a {given[0]} (at {{other}})"
                yield Problem(message, f"remove it: a {given[0]} has its own", (field,), (given[0],))


def _one_source(fields: tuple[str, ...], written: Mapping[str, Any], what: str, hint: str) -> Iterator[Problem]:
    yield from one_of(written, fields, f"{what} is one thing")
    yield from at_least_one(written, fields, f"{what} needs {listing(fields, 'or')}", hint)

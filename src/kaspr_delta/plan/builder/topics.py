"""The topics of an application: every topic that its manifests name, with their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication, Defaults
from kaspr_delta.plan.builder.pipelines import OPERATIONS
from kaspr_delta.plan.definition.bindings import BindingPlan
from kaspr_delta.plan.definition.resources import TopicPlan
from kaspr_delta.plan.names import topic_table
from kaspr_delta.spec.diagnostics import Location
from kaspr_delta.spec.resource import ResourceSpec
from kaspr_delta.spec.topics import SendTarget, StreamSide, TopicDeclaration, deletes, retention


class NamedTopic(NamedTuple):
    """A location where a topic is named."""

    name: str
    location: Location
    declared: TopicDeclaration
    # Whether records are sent to it there; where their partition is chosen; and whether it is only its binding in the
    # KasprApp.
    sent: bool = False
    selector: Location | None = None
    binding: bool = False


def named_topics(application: DeclaredApplication) -> Iterator[NamedTopic]:
    """All topics that are named, also by resources that wait or do not run: they can be filled beforehand."""
    if application.app is not None:
        for name in application.app.spec.topics:
            yield NamedTopic(name, application.app.key_at("topics", name), TopicDeclaration(), binding=True)
    for join in application.joins.values():
        yield from _of_stream(join, join.spec.left_stream, "leftStream")
        yield from _of_stream(join, join.spec.right_stream, "rightStream")
    for table in application.tables.values():
        yield from _of_stream(table, table.spec.from_, "from")
    for agent in application.agents.values():
        if agent.spec.input.topic:
            for name in agent.spec.input.topic.names:
                yield NamedTopic(name, agent.at("input", "topic", "name"), agent.spec.input.topic)
    yield from _sends(application)


def topic_plans(
    named: Iterable[NamedTopic], defaults: Defaults, bound: Mapping[str, BindingPlan]
) -> tuple[TopicPlan, ...]:
    """The topics, sorted by name, each with its binding.

    Of several declarations of one topic, the largest number of partitions and the longest retention count.
    """
    declared: dict[str, list[TopicDeclaration]] = {}
    for topic in named:
        declared.setdefault(topic.name, []).append(topic.declared)
    return tuple(
        TopicPlan(
            name,
            topic_table(name),
            max((one.partitions for one in declarations if one.partitions), default=defaults.partitions),
            defaults.serializers,
            max((kept for one in declarations if (kept := _retention(one)) is not None), default=None),
            bound.get(name),
        )
        for name, declarations in sorted(declared.items())
    )


def _of_stream(resource: Declared[ResourceSpec], side: StreamSide | None, field: str) -> Iterator[NamedTopic]:
    if side is not None and side.topic is not None:
        yield NamedTopic(side.topic, resource.at(field, "topic"), TopicDeclaration(partitions=side.partitions))


def _sends(application: DeclaredApplication) -> Iterator[NamedTopic]:
    for agent in application.agents.values():
        for index, topic in enumerate(agent.spec.output.topics):
            yield from _sent_to(agent, topic, "output", "topics", index)
    for piped in (application.agents, application.web_views, application.tasks):
        for resource in piped.values():
            for index, operation in resource.spec.processors.steps():
                if operation.topic_send:
                    yield from _sent_to(resource, operation.topic_send, *OPERATIONS, index, "topicSend")


def _sent_to(resource: Declared[Any], target: SendTarget, *at: str | int) -> Iterator[NamedTopic]:
    if target.name:
        selector = resource.key_at(*at, "partitionSelector") if target.partition_selector else None
        yield NamedTopic(target.name, resource.at(*at, "name"), target, sent=True, selector=selector)


def _retention(declared: TopicDeclaration) -> int | None:
    """How long the records of a topic are kept, in milliseconds; None: not declared, or for ever."""
    if declared.retention is not None:
        return declared.retention * 1_000 if declared.retention >= 0 else None
    return retention(declared.config) if deletes(declared.config, "delete") else None

"""The topics of an application: every topic that its manifests name, with their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication
from kaspr_delta.plan.builder.defaults import Defaults
from kaspr_delta.plan.builder.pipelines import OPERATIONS
from kaspr_delta.plan.definition.bindings import BindingPlan
from kaspr_delta.plan.definition.resources import TopicPlan
from kaspr_delta.plan.names import topic_table
from kaspr_delta.spec.agent import AgentSpec
from kaspr_delta.spec.app import AppSpec
from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.diagnostics import Location
from kaspr_delta.spec.processors import Processors
from kaspr_delta.spec.resource import ResourceSpec
from kaspr_delta.spec.streams import StreamSide
from kaspr_delta.spec.topic_configs import deletes, retention
from kaspr_delta.spec.topics import TopicDeclaration


class NamedTopic(NamedTuple):
    """A location where a topic is named."""

    name: str
    location: Location
    declared: TopicDeclaration
    # Whether records are sent to it there; and whether it is only its binding in the KasprApp.
    sent: bool = False
    binding: bool = False


def named_topics(application: DeclaredApplication) -> Iterator[NamedTopic]:
    """All topics that are named, also by resources that wait or do not run: they can be filled beforehand."""
    if application.app is not None:
        yield from _of_bindings(application.app)
    for join in application.joins.values():
        for field, side in (("leftStream", join.spec.left_stream), ("rightStream", join.spec.right_stream)):
            yield from _of_stream(join, side, ("spec", field))
    for table in application.tables.values():
        yield from _of_stream(table, table.spec.from_, ("spec", "from"))
    for agent in application.agents.values():
        yield from _of_agent(agent)
        yield from _sent_to(agent, agent.spec.processors)
    for view in application.web_views.values():
        yield from _sent_to(view, view.spec.processors)
    for task in application.tasks.values():
        yield from _sent_to(task, task.spec.processors)


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
            _longest([_retention(one) for one in declarations]),
            bound.get(name),
        )
        for name, declarations in sorted(declared.items())
    )


def _of_bindings(app: Declared[AppSpec]) -> Iterator[NamedTopic]:
    for name in app.spec.topics:
        yield NamedTopic(name, app.source.locate("spec", "topics", name), TopicDeclaration(), binding=True)


def _of_stream(resource: Declared[ResourceSpec], side: StreamSide | None, at: FieldPath) -> Iterator[NamedTopic]:
    if side is not None and side.topic is not None:
        declared = TopicDeclaration(partitions=side.partitions)
        yield NamedTopic(side.topic, resource.source.locate_value(*at, "topic"), declared)


def _of_agent(agent: Declared[AgentSpec]) -> Iterator[NamedTopic]:
    if agent.spec.input.topic:
        for name in agent.spec.input.topic.names:
            at = agent.source.locate_value("spec", "input", "topic", "name")
            yield NamedTopic(name, at, agent.spec.input.topic)
    for index, topic in enumerate(agent.spec.output.topics):
        if topic.name:
            at = agent.source.locate_value("spec", "output", "topics", index, "name")
            yield NamedTopic(topic.name, at, topic, sent=True)


def _sent_to(resource: Declared[ResourceSpec], processors: Processors) -> Iterator[NamedTopic]:
    for index, operation in processors.steps():
        if operation.topic_send and operation.topic_send.name:
            at = resource.source.locate_value(*OPERATIONS, index, "topicSend", "name")
            yield NamedTopic(operation.topic_send.name, at, operation.topic_send, sent=True)


def _retention(declared: TopicDeclaration) -> int | None:
    """How long the records of a topic are kept, in milliseconds; None: not declared, or for ever."""
    if declared.retention is not None:
        return declared.retention * 1_000 if declared.retention >= 0 else None
    return retention(declared.config) if deletes(declared.config, "delete") else None


def _longest(given: list[int | None]) -> int | None:
    said = [length for length in given if length is not None]
    return max(said, default=None)

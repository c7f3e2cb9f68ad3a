"""Agents as they run."""

from __future__ import annotations

from collections.abc import Iterator

from kaspr_delta.plan.applications import Declared
from kaspr_delta.plan.defaults import Defaults
from kaspr_delta.plan.definition import AgentPlan, ChannelInput, ResourceRef, TopicInput
from kaspr_delta.plan.names import log_table
from kaspr_delta.plan.pipelines import pipeline, send, table_references, topics_sent_to
from kaspr_delta.plan.references import References
from kaspr_delta.spec.agent import AgentSpec
from kaspr_delta.spec.diagnostics import Location


def agent_plan(agent: Declared[AgentSpec], defaults: Defaults, references: References) -> AgentPlan | None:
    """The plan of an agent, or None for one that waits."""
    ref = ResourceRef("agent", agent.name)
    spec, source = agent.spec, agent.source
    _wait_for_what_is_not_built(agent, ref, references)
    source_plan = _input(agent, ref, defaults, references)
    tables = dict(reversed(tuple(table_references(agent, spec.processors))))
    names = tuple(dict.fromkeys(name for name, _ in table_references(agent, spec.processors)))
    for name in names:
        if references.table(ref, "table", name, tables[name]):
            _compare_key_serializers(agent, name, defaults, references)
    if ref in references.waiting or source_plan is None:
        return None
    init = spec.processors.init
    return AgentPlan(
        name=agent.name,
        input=source_plan,
        init=source.snippet(init, "spec", "processors", "init") if init else None,
        pipeline=tuple(pipeline(agent, spec.processors, defaults)),
        outputs=tuple(
            send(source, topic, ("spec", "output", "topics", index), defaults)
            for index, topic in enumerate(spec.output.topics)
        ),
        tables=names,
        log=log_table(agent.name),
        description=spec.description,
        location=agent.location,
    )


def topics_of(agent: Declared[AgentSpec]) -> Iterator[tuple[str, Location]]:
    """The topics an agent names, read or written, each with its place."""
    if agent.spec.input.topic:
        for name in agent.spec.input.topic.names:
            yield name, agent.source.locate_value("spec", "input", "topic", "name")
    for index, topic in enumerate(agent.spec.output.topics):
        if topic.name:
            yield topic.name, agent.source.locate_value("spec", "output", "topics", index, "name")
    yield from topics_sent_to(agent, agent.spec.processors)


def _wait_for_what_is_not_built(agent: Declared[AgentSpec], ref: ResourceRef, references: References) -> None:
    waits = f"agent '{agent.name}' waits"
    if agent.spec.input.take:
        references.wait(ref, "agents handle one event at a time in this version")
        location = agent.source.locate("spec", "input", "take")
        message = f"agents handle one event at a time in this version; {waits}"
        references.report.warning(location, message, "remove 'take' and let the function take one value")
    if agent.spec.input.topic and agent.spec.input.topic.pattern:
        references.wait(ref, "agents read topics by name in this version")
        location = agent.source.locate("spec", "input", "topic", "pattern")
        message = f"agents read topics by name in this version; {waits}"
        references.report.warning(location, message, "list the topics: `name: orders-eu, orders-us`")


def _input(
    agent: Declared[AgentSpec], ref: ResourceRef, defaults: Defaults, references: References
) -> TopicInput | ChannelInput | None:
    given = agent.spec.input
    if given.topic:
        serializers = defaults.with_own(given.topic.key_serializer, given.topic.value_serializer)
        return TopicInput(given.topic.names, serializers, given.start)
    if given.channel:
        location = agent.source.locate_value("spec", "input", "channel", "name")
        join = references.channel(ref, given.channel.name, location)
        return ChannelInput(given.channel.name, join, given.channel.tombstones, given.start) if join else None
    return None


def _compare_key_serializers(
    agent: Declared[AgentSpec], table: str, defaults: Defaults, references: References
) -> None:
    topic = agent.spec.input.topic
    if topic is None:
        return
    read = defaults.with_own(topic.key_serializer, None).key
    kept = references.application.tables[table].spec.key_serializer
    if read != kept:
        location = agent.source.locate_value(
            "spec", "input", "topic", "keySerializer" if topic.key_serializer else "name"
        )
        message = f"agent '{agent.name}' reads keys as {read}, but its table '{table}' keeps {kept} keys"
        hint = "an event's key written to the table will not be found by joins; give both the same keySerializer"
        references.report.warning(location, message, hint)

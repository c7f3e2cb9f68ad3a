"""Plans of agents."""

from __future__ import annotations

from collections.abc import Collection

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication
from kaspr_delta.plan.builder.defaults import Defaults
from kaspr_delta.plan.builder.pipelines import initializer, pipeline, send, table_references
from kaspr_delta.plan.builder.references import References
from kaspr_delta.plan.definition.resources import AgentPlan, ChannelInput, ResourceRef, TakePlan, TopicInput
from kaspr_delta.plan.names import log_table
from kaspr_delta.spec.agent import AgentSpec
from kaspr_delta.spec.durations import milliseconds
from kaspr_delta.spec.patterns import matching


def agent_plans(
    application: DeclaredApplication, defaults: Defaults, references: References, topics: Collection[str]
) -> tuple[AgentPlan, ...]:
    """The plans of all agents that do not wait, sorted by name. ``topics`` are those that the application names."""
    agents = (application.agents[name] for name in sorted(application.agents))
    return tuple(filter(None, (_plan(agent, defaults, references, topics) for agent in agents)))


def _plan(
    agent: Declared[AgentSpec], defaults: Defaults, references: References, topics: Collection[str]
) -> AgentPlan | None:
    ref = ResourceRef("agent", agent.name)
    spec, source = agent.spec, agent.source
    source_plan = _input(agent, ref, defaults, references, topics)
    tables = dict(reversed(tuple(table_references(agent, spec.processors))))
    names = tuple(dict.fromkeys(name for name, _ in table_references(agent, spec.processors)))
    for name in names:
        if references.table(ref, "table", name, tables[name]):
            _compare_key_serializers(agent, name, defaults, references)
    if ref in references.waiting or source_plan is None:
        return None
    return AgentPlan(
        name=agent.name,
        input=source_plan,
        take=TakePlan(spec.input.take.max, milliseconds(spec.input.take.within)) if spec.input.take else None,
        init=initializer(agent, spec.processors),
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


def _input(
    agent: Declared[AgentSpec], ref: ResourceRef, defaults: Defaults, references: References, topics: Collection[str]
) -> TopicInput | ChannelInput | None:
    given = agent.spec.input
    if given.topic:
        serializers = defaults.with_own(given.topic.key_serializer, given.topic.value_serializer)
        pattern = given.topic.pattern
        names = given.topic.names if pattern is None else matching(pattern, topics)
        return TopicInput(names, pattern, serializers, given.start)
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
        field = "keySerializer" if topic.key_serializer else "name" if topic.name else "pattern"
        location = agent.source.locate_value("spec", "input", "topic", field)
        message = f"agent '{agent.name}' reads keys as {read}, but its table '{table}' keeps {kept} keys"
        hint = "an event's key written to the table will not be found by joins; give both the same keySerializer"
        references.report.warning(location, message, hint)

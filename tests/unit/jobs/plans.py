"""Functions that build plans from a few names. Edges, groups and stages are computed as for manifests."""

from __future__ import annotations

from hypothesis import strategies as st

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.builder.order import data_flow, groups, stages
from kaspr_delta.plan.definition.application import JobSchedule, Plan
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan, JoinPlan, Spelling
from kaspr_delta.plan.definition.resources import AgentPlan, ChannelInput, SendPlan, Serializers, TopicInput
from kaspr_delta.plan.definition.storage import StoragePlan
from kaspr_delta.spec.diagnostics import Location

JSON = Serializers("json", "json")
EXTRACTOR = Snippet("def key(value): return value", "key")


def agent(
    name: str,
    *,
    topic: str = "",
    join: str = "",
    tables: tuple[str, ...] = (),
    sends: tuple[str, ...] = (),
    description: str = "",
    line: int = 1,
) -> AgentPlan:
    """An agent that reads a topic or a join's channel, uses tables and sends to topics."""
    read_topic = TopicInput((topic,), None, JSON, "earliest")
    read_channel = ChannelInput(f"{join}-channel", join, tombstones=False, start="earliest")
    source = read_topic if topic else read_channel
    location = Location("bundles/shop/agents.yaml", line)
    log = f"log__{name}"
    return AgentPlan(
        name=name,
        input=source,
        take=None,
        init=None,
        pipeline=(),
        outputs=tuple(map(_send, sends)),
        tables=tables,
        log=log,
        description=description,
        location=location,
    )


def join(name: str, left: str, right: str, *, line: int = 1) -> JoinPlan:
    """An inner join of two tables."""
    location = Location("bundles/shop/joins.yaml", line)
    return ForeignKeyJoinPlan(
        name=name,
        type="inner",
        spelling=Spelling("json", "json", "json"),
        channel=f"{name}-channel",
        log=f"channel__{name}",
        description="",
        location=location,
        storage=StoragePlan(),
        left=left,
        right=right,
        extractor=EXTRACTOR,
        result=name,
        subscriptions=f"subscriptions__{name}",
    )


def plan(*resources: AgentPlan | JoinPlan, packages: tuple[str, ...] = (), application: str = "shop") -> Plan:
    """The plan of an application that has these resources."""
    agents = tuple(resource for resource in resources if isinstance(resource, AgentPlan))
    joins = tuple(resource for resource in resources if isinstance(resource, JoinPlan))
    edges = data_flow(joins, (), agents, {}, {})
    return Plan(
        application=application,
        application_id=f"{application}-app",
        schema=application.replace("-", "_"),
        default_partitions=1,
        event_timeout=1_000,
        topics=(),
        tables=(),
        joins=joins,
        aggregations=(),
        agents=agents,
        tasks=(),
        groups=groups([one for one in agents if one.ordered], [name for one in agents for name in one.tables]),
        stages=stages([resource.ref for resource in resources], edges),
        edges=edges,
        waiting=(),
        web_views=(),
        python_packages=packages,
        findings=(),
        job_schedule=JobSchedule(),
        location=Location(f"bundles/{application}/app.yaml"),
    )


def _send(topic: str) -> SendPlan:
    return SendPlan(topic, None, None, None, None, None, None, JSON)


names = st.sampled_from([f"n{number}" for number in range(6)])


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any plan of a few joins and agents."""
    joins = [join(name, draw(names), draw(names)) for name in draw(st.lists(names.map(lambda n: f"j{n}"), unique=True))]
    agents: list[AgentPlan] = []
    for name in draw(st.lists(names.map(lambda n: f"a{n}"), unique=True)):
        tables = tuple(draw(st.lists(names, max_size=2, unique=True)))
        sends = tuple(draw(st.lists(names, max_size=2, unique=True)))
        topic, channel = draw(names), draw(st.sampled_from([*(one.name for one in joins), ""]))
        agents.append(agent(name, topic="" if channel else topic, join=channel, tables=tables, sends=sends))
    resources: list[AgentPlan | JoinPlan] = [*joins, *agents]
    return plan(*resources)

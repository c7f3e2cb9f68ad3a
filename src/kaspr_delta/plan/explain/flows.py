"""The reads and writes of the resources that run, for people.

A table that an agent reads and writes is among both, while a plan has one edge for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kaspr_delta.plan.definition import resources as plans
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinPlan


def flows(plan: Plan, ref: plans.ResourceRef) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The reads of a resource, and its writes.

    A write is one ``(perhaps)`` if the source of the functions does not tell whether they write the table.
    """
    running = plan.running(ref)
    match running:
        case plans.AgentPlan() | plans.TaskPlan():
            return _flows_of(running, plan)
        case plans.TopicPlan():
            here, there = (str(ref),), (running.bound.endpoint.text,)
            return (there, here) if running.bound.direction == "input" else (here, there)
    read = tuple(edge.source for edge in plan.edges if edge.target == str(ref))
    return read, (f"channel/{running.channel}",) if isinstance(running, JoinPlan) else ("its rows",)


def _flows_of(pipeline: plans.AgentPlan | plans.TaskPlan, plan: Plan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    read = list(_inputs(pipeline, plan))
    sends = (send.topic for send in plans.sends_of(pipeline))
    written = ["topic by function" if topic is None else _topic(topic, plan) for topic in sends]
    for table in pipeline.tables:
        uses = plans.uses_of(pipeline, table, plan.table_or_result(table))
        if "reads" in uses or not uses:
            read.append(plan.label_of(table))
        if "writes" in uses:
            written.append(f"table/{table}")
        elif "perhaps writes" in uses:
            written.append(f"table/{table} (perhaps)")
    return tuple(dict.fromkeys(read)), tuple(dict.fromkeys(written))


def _inputs(pipeline: plans.AgentPlan | plans.TaskPlan, plan: Plan) -> Iterator[str]:
    if isinstance(pipeline, plans.TaskPlan):
        return
    if isinstance(pipeline.input, plans.ChannelInput):
        yield f"join/{pipeline.input.join}"
        return
    if pipeline.input.pattern is not None:
        yield f"topics that match {pipeline.input.pattern}"
    for topic in pipeline.input.topics:
        yield _topic(topic, plan)


def _topic(name: str, plan: Plan) -> str:
    table = plan.changelog(name)
    return f"topic/{name}" if table is None else f"table/{table.name}"

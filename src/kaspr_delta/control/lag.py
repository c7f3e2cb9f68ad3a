"""The lag of a resource behind its inputs, read from Spark's checkpoints and Delta's logs without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kaspr_delta.control.rebuilds import start_in
from kaspr_delta.engine.batch.checkpoint import checkpoints_of
from kaspr_delta.engine.rows.sequence import version_of
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.bindings import KafkaPlan
from kaspr_delta.plan.definition.joins import (
    AggregationPlan,
    RightForeignKeyJoinPlan,
    StreamTableJoinPlan,
    TableTableJoinPlan,
)
from kaspr_delta.plan.definition.resources import AgentPlan, ResourceRef, TablePlan, TopicInput
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.stream_checkpoint import newest_stream, positions_in


class _Read(NamedTuple):
    """A Delta table that a resource reads, either from its beginning or from where the checkpoint began.

    ``name`` is its name in the checkpoint. If ``is_stream`` its positions are offsets, otherwise versions.
    """

    table: str
    from_the_start: bool
    name: str
    is_stream: bool

    def first_unread(self, began: Mapping[str, int]) -> int:
        """The first version that is completely unread when a checkpoint begins at these positions."""
        position = began.get(self.name, -1)
        return (version_of(position) if self.is_stream and position >= 0 else position) + 1


def lags_of(delta: DeltaRs, plan: Plan, ref: ResourceRef) -> dict[str, int] | str:
    """The number of rows and records that a resource has not read yet, by the commits' own counts.

    By source: ``topic/x``, ``table/x`` or ``join/x``; the reason where it is unknown. For a channel the number is
    approximate. Records that were read and are held back until others come do not count.
    """
    topic = plan.topic(ref.name) if ref.kind == "topic" else None
    if topic is not None and topic.bound.direction == "input":
        return f"the records of {topic.bound.endpoint.text} are not counted"
    # A table of others that is not on this machine is left out: its log cannot be read here.
    sources = {label: source for label, source in _read_by(plan, ref) if delta.has_folder(source.table)}
    newest = newest_stream(checkpoints_of(delta.namespace, ref), "commits")
    positions = () if newest is None else positions_in(newest)
    if positions:
        unread = {position.table_id: position.unread for position in positions if position is not None}
        first = {label: unread.get(delta.table_id(source.table) or "") for label, source in sources.items()}
        return {
            label: 0 if version is None else delta.rows_changed(sources[label].table, version)
            for label, version in first.items()
        }
    # No batch has ended yet: the resource stands where its checkpoint began.
    start = start_in(delta.rows, plan.log_of(ref))
    return {
        label: delta.count(source.table)
        if source.from_the_start or start is None
        else delta.rows_changed(source.table, source.first_unread(start.positions))
        for label, source in sources.items()
    }


def _read_by(plan: Plan, ref: ResourceRef) -> Iterator[tuple[str, _Read]]:
    """The Delta tables that a resource may read, each with its source as ``kind/name``."""
    agent = plan.agent(ref.name) if ref.kind == "agent" else None
    from_the_start = agent is None or agent.input.start == "earliest"
    exported = plan.topic(ref.name) if ref.kind == "topic" else None
    if exported is not None:
        endpoint = exported.bound.endpoint
        whole = not isinstance(endpoint, KafkaPlan) or endpoint.starting_offsets == "earliest"
        yield str(ref), _Read(exported.delta_name, whole, exported.name, is_stream=True)
    sides = _sides(plan, ref)
    for edge in plan.edges:
        kind, _, name = edge.source.partition("/")
        if edge.target != str(ref):
            continue
        topic, table, join = plan.topic(name), plan.table(name), plan.join(name)
        if kind == "topic" and topic is not None:
            yield edge.source, _Read(topic.delta_name, from_the_start, name, is_stream=True)
        elif kind == "table" and table is not None and (agent is None or _follows(agent, table)):
            yield edge.source, _Read(table.delta_name, from_the_start=False, name=sides.get(name, ""), is_stream=False)
        elif kind == "join" and join is not None:
            # Of a table-table join only agents read the channel; other resources read its result.
            if isinstance(join, TableTableJoinPlan) and agent is None:
                yield edge.source, _Read(join.result, from_the_start=False, name=sides.get(name, ""), is_stream=False)
            else:
                yield edge.source, _Read(join.log, from_the_start, join.channel, is_stream=True)


def _follows(agent: AgentPlan, table: TablePlan) -> bool:
    """Whether the changes of a table are an input of an agent, whose functions may read its rows by key besides."""
    return isinstance(agent.input, TopicInput) and table.changelog in agent.input.topics


def _sides(plan: Plan, ref: ResourceRef) -> Mapping[str, str]:
    """By table, or join instead of a table, its name in the checkpoint of the resource that reads its rows."""
    match plan.running(ref):
        case join if isinstance(join, TableTableJoinPlan):
            return {join.left: "left", join.right: "right"}
        case StreamTableJoinPlan() | RightForeignKeyJoinPlan() as join:
            return {join.right: "table"}
        case AggregationPlan(origin=str(table)):
            return {table: "table"}
    return {}

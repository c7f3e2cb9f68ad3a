"""The Delta tables that a resource reads, by the names that they have in its checkpoint. No Spark."""

from __future__ import annotations

from typing import NamedTuple

from kaspr_delta.engine.rows.sequence import end_of, version_of
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import (
    AggregationPlan,
    ForeignKeyJoinPlan,
    RightForeignKeyJoinPlan,
    SameKeyJoinPlan,
    StreamPlan,
    StreamStreamJoinPlan,
    StreamTableJoinPlan,
)
from kaspr_delta.plan.definition.resources import AgentPlan, ChannelInput, ResourceRef, TopicInput, TopicPlan
from kaspr_delta.plan.names import channel_table, topic_table

# The position in a topic or channel of which nothing was read.
NOTHING = -1


class SourceTable(NamedTuple):
    """The source of a stream; ``table`` is empty for an endpoint, in which only the stream can find news.

    A position of the source is a version of the table or, ``by_offset``, an offset of a record (``rows.sequence``).
    ``label`` is the resource whose rows or records these are, as ``kind/name``.
    """

    table: str
    by_offset: bool = False
    label: str = ""

    @property
    def is_endpoint(self) -> bool:
        return not self.table

    def upto(self, version: int) -> int:
        """The position at which the table is read up to and with a version."""
        return end_of(version) if self.by_offset else version

    def version(self, position: int) -> int:
        """The last version that a position has read wholly."""
        return version_of(position + 1) - 1 if self.by_offset else position

    def first_unread(self, position: int) -> int:
        """The first version of which a position has read nothing."""
        return (version_of(position) if self.by_offset and position > NOTHING else position) + 1


def sources_of(plan: Plan, ref: ResourceRef) -> dict[str, SourceTable]:
    """The sources of a resource. Of an agent whose topics match a pattern they are those that manifests name."""
    found: dict[str, SourceTable] = {}
    match plan.running(ref):
        case TopicPlan() as topic if topic.bound.direction == "input":
            found[topic.bound.endpoint.label] = SourceTable("")
        case TopicPlan() as topic:
            found[topic.name] = SourceTable(topic.delta_name, by_offset=True, label=str(topic.ref))
        case AgentPlan(input=read):
            names = (read.channel,) if isinstance(read, ChannelInput) else read.topics
            found = {name: source_of_records(plan, read, name) for name in names}
        case AggregationPlan(origin=StreamPlan() as stream):
            found[stream.name] = _records_of(plan, stream)
        case AggregationPlan(origin=str(origin)):
            found["table"] = _rows_of(plan, origin)
        case StreamStreamJoinPlan() as join:
            found = {"left": _records_of(plan, join.left), "right": _records_of(plan, join.right)}
        case StreamTableJoinPlan() | RightForeignKeyJoinPlan() as join:
            found["stream"] = _records_of(plan, join.left)
            if join.follows_table:
                found["table"] = _rows_of(plan, join.right)
        case ForeignKeyJoinPlan() | SameKeyJoinPlan() as join:
            found = {"left": _rows_of(plan, join.left), "right": _rows_of(plan, join.right)}
    return found


def source_of_records(plan: Plan, read: TopicInput | ChannelInput, name: str) -> SourceTable:
    """The source of a topic, changelog or channel of that name."""
    if isinstance(read, ChannelInput):
        return SourceTable(channel_table(name), by_offset=True, label=f"join/{read.join}")
    table = plan.changelog(name)
    if table is None:
        return SourceTable(topic_table(name), by_offset=True, label=f"topic/{name}")
    return SourceTable(table.delta_name, by_offset=True, label=str(table.ref))


def _records_of(plan: Plan, stream: StreamPlan) -> SourceTable:
    return source_of_records(plan, stream.input, stream.name)


def _rows_of(plan: Plan, name: str) -> SourceTable:
    """The source of a table, or of the result of a join, of that name."""
    return SourceTable(plan.table_or_result(name).delta_name, label=plan.label_of(name))

"""One line of text for each join, and for each table that is made from a stream or table."""

from __future__ import annotations

from kaspr_delta.plan.definition.aggregations import AggregationPlan
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import (
    ForeignKeyJoinPlan,
    JoinPlan,
    RightForeignKeyJoinPlan,
    SameKeyJoinPlan,
    StreamPlan,
    StreamStreamJoinPlan,
    StreamTableJoinPlan,
)
from kaspr_delta.plan.definition.resources import ChannelInput, ResourceRef
from kaspr_delta.spec.durations import duration_text


def join_text(join: JoinPlan) -> str:
    """The sides of a join, how they are joined, and the channel of the result."""
    match join:
        case ForeignKeyJoinPlan():
            text = f"{join.left} {join.type} join {join.right} {_by(join)}"
        case SameKeyJoinPlan():
            text = f"{join.left} {join.type} join {join.right} on key"
        case StreamTableJoinPlan():
            by = f"by {join.mapper.entrypoint}()" if join.mapper else "on key"
            everywhere = "global " if join.is_global else ""
            pending = "" if join.pending is None else f", waiting for it up to {duration_text(join.pending)}"
            text = f"{_stream(join.left)} {join.type} join {everywhere}{join.right} {by}{pending}"
        case RightForeignKeyJoinPlan():
            by = f"by {join.extractor.entrypoint}() of the right value"
            text = f"{_stream(join.left)} {join.type} join {join.right} {by}"
        case StreamStreamJoinPlan():
            before, after, grace = map(duration_text, (join.before, join.after, join.grace))
            window = f"from {before} before to {after} after, grace {grace}"
            text = f"{_stream(join.left)} {join.type} join {_stream(join.right)} on key, {window}"
    return f"{text} -> channel {join.channel}"


def _by(join: ForeignKeyJoinPlan) -> str:
    declared = join.picked is not None and join.picked.declared
    return f"by {join.picked}" if declared else f"by {join.extractor.entrypoint}()"


def aggregation_text(plan: Plan, aggregation: AggregationPlan) -> str:
    """The origin of a table, and how the table is made from it."""
    source = ResourceRef.of(plan.origin_of(aggregation))
    origin = f"{source.kind} {source.name}" if isinstance(aggregation.origin, str) else _stream(aggregation.origin)
    groups = f" -> group by {aggregation.group.entrypoint}()" if aggregation.group else ""
    functions = [function for function in (aggregation.adder, aggregation.subtractor) if function]
    by = f" by {' and '.join(f'{function.entrypoint}()' for function in functions)}" if functions else ""
    return f"{origin}{groups} -> {aggregation.kind}{by}"


def _stream(stream: StreamPlan) -> str:
    kind = "channel" if isinstance(stream.input, ChannelInput) else "topic"
    anew = f" spread over {stream.partitions} partitions" if stream.repartitioned else ""
    return f"{kind} {stream.name}{anew}"

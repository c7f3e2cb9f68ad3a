"""The Delta tables that the plan of an application names, with their layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import (
    AggregationPlan,
    ForeignKeyJoinPlan,
    JoinPlan,
    RightForeignKeyJoinPlan,
    SameKeyJoinPlan,
    StreamStreamJoinPlan,
    StreamTableJoinPlan,
)
from kaspr_delta.plan.definition.resources import AgentPlan, ResourceRef, TaskPlan, TopicPlan
from kaspr_delta.plan.definition.storage import StoragePlan
from kaspr_delta.plan.names import delta_name, shown_table
from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage import layout as layouts

Settles: TypeAlias = Callable[[str, layouts.Layout], bool]
"""Whether a table has got this layout: then the catalog is not asked about it."""


def tables_of(plan: Plan) -> Iterator[tuple[ResourceRef, str, layouts.Layout]]:
    """Every Delta table that the plan of an application names, with its resource and its layout."""
    for topic in plan.topics:
        yield topic.ref, topic.delta_name, _followable(layouts.TOPIC, plan)
    for kind in (plan.topics, plan.tables, plan.joins, plan.agents, plan.tasks):
        for resource in kind:
            for table, layout in tables_kept_by(plan, resource.ref):
                yield resource.ref, table, layout


def tables_kept_by(plan: Plan, ref: ResourceRef) -> Iterator[tuple[str, layouts.Layout]]:
    """The Delta tables, with layouts, that belong to one resource and are removed with it."""
    for name, layout in _kept_by(plan, ref):
        yield name, _followable(layout, plan)
        if name == delta_name(ref.name) and plan.reaction(ref) == "side-by-side":
            yield shown_table(ref.name), layouts.shown_layout(layout)


def layout_of(plan: Plan, ref: ResourceRef, table: str) -> layouts.Layout:
    """The layout of one of the tables that belong to a resource."""
    return next(layout for name, layout in tables_kept_by(plan, ref) if name == table)


def _followable(layout: layouts.Layout, plan: Plan) -> layouts.Layout:
    """The layout with the application's retention of change feeds, unless the table has its own."""
    own = not layout.change_feed or layout.feed_retention is not None
    return layout if own else replace(layout, feed_retention=plan.feed_retention)


def _kept_by(plan: Plan, ref: ResourceRef) -> Iterator[tuple[str, layouts.Layout]]:
    if ref.kind == "table" and (table := plan.table(ref.name)):
        for name in () if table.is_foreign else table.delta_tables:
            shown = name == table.delta_name
            yield name, layouts.table_layout(table if shown else replace(table, storage=StoragePlan()))
    match plan.running(ref):
        case AggregationPlan() as made:
            yield made.log, layouts.AGGREGATION
            if isinstance(made.origin, str):
                yield made.contributions, layouts.CONTRIBUTIONS
                yield made.group_times, layouts.GROUP_TIMES
        case AgentPlan() | TaskPlan() as pipeline:
            yield pipeline.log, layouts.EFFECTS
        case TopicPlan() as topic:
            yield topic.log, layouts.INGEST if topic.bound.direction == "input" else layouts.EXPORT
        case None:
            return
        case join:
            yield from _tables_of_join(join, *plan.column_types(join))


def _tables_of_join(join: JoinPlan, left: Type | None, right: Type | None) -> Iterator[tuple[str, layouts.Layout]]:
    match join:
        case ForeignKeyJoinPlan() | SameKeyJoinPlan():
            channel = layouts.joined_layout(layouts.CHANNEL, left, right)
            selects = join.select is not None and join.select.function is not None
            yield (
                join.log,
                replace(channel, columns=f"{channel.columns}, {layouts.SELECTED} STRING") if selects else channel,
            )
            selected = join.select.columns(left, right) if join.select else ()
            result = layouts.selected_layout(selected) if selected else layouts.result_layout(left, right)
            yield join.result, replace(result, storage=join.storage, key=("key",))
            if isinstance(join, ForeignKeyJoinPlan):
                yield join.subscriptions, layouts.SUBSCRIPTIONS
        case StreamTableJoinPlan():
            yield join.log, replace(layouts.STREAM_CHANNEL, storage=join.storage)
            if join.pending is not None:
                yield join.waiting, layouts.WAITING
        case RightForeignKeyJoinPlan():
            yield join.log, replace(layouts.STREAM_CHANNEL, storage=join.storage)
            yield join.index, layouts.INDEX
        case StreamStreamJoinPlan():
            yield join.log, replace(layouts.STREAM_CHANNEL, storage=join.storage)
            yield join.buffer, layouts.BUFFER

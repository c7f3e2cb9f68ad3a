"""Create the Delta tables and views of a plan, and the parts that run its resources."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kaspr_delta.engine.agent.agent import Agent
from kaspr_delta.engine.agent.pipeline import Task
from kaspr_delta.engine.aggregation.over_stream import StreamAggregation
from kaspr_delta.engine.aggregation.over_table import TableAggregation
from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.engine.batch.checkpoint import checkpoints_of
from kaspr_delta.engine.batch.recovery import Recovery
from kaspr_delta.engine.batch.resource import Resource
from kaspr_delta.engine.batch.stream_run import ResourceRun
from kaspr_delta.engine.binding.bound_topics import Export, Ingest
from kaspr_delta.engine.joins.foreign_key.foreign_key_join import ForeignKeyJoin
from kaspr_delta.engine.joins.same_key_join import SameKeyJoin
from kaspr_delta.engine.joins.select import SELECTED
from kaspr_delta.engine.joins.stream_stream.stream_stream_join import StreamStreamJoin
from kaspr_delta.engine.joins.stream_table.right_foreign_key_join import RightForeignKeyJoin
from kaspr_delta.engine.joins.stream_table.stream_table_join import StreamTableJoin
from kaspr_delta.engine.rows.planning import side_by_side
from kaspr_delta.errors import NotFoundError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import (
    AggregationPlan,
    ForeignKeyJoinPlan,
    JoinPlan,
    RightForeignKeyJoinPlan,
    SameKeyJoinPlan,
    StreamStreamJoinPlan,
    StreamTableJoinPlan,
    TableTableJoinPlan,
)
from kaspr_delta.plan.definition.resources import AgentPlan, ResourceRef, TaskPlan, TopicPlan
from kaspr_delta.plan.definition.storage import StoragePlan
from kaspr_delta.plan.names import differences_table, value_view
from kaspr_delta.runtime.failures import made_to_wait
from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage import layout as layouts
from kaspr_delta.storage.declared import Declared
from kaspr_delta.storage.opening import open_tables
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_JOINS: dict[type[JoinPlan], Callable[..., Resource[Any]]] = {
    ForeignKeyJoinPlan: ForeignKeyJoin,
    SameKeyJoinPlan: SameKeyJoin,
    StreamTableJoinPlan: StreamTableJoin,
    RightForeignKeyJoinPlan: RightForeignKeyJoin,
    StreamStreamJoinPlan: StreamStreamJoin,
}


def tables_kept_by(plan: Plan, ref: ResourceRef) -> Iterator[tuple[str, layouts.Layout]]:
    """The Delta tables, with layouts, that belong to one resource and are removed with it."""
    for name, layout in _kept_by(plan, ref):
        yield name, _followable(layout, plan)


def _followable(layout: layouts.Layout, plan: Plan) -> layouts.Layout:
    """The layout with the application's retention of change feeds, unless the table has its own."""
    own = not layout.change_feed or layout.feed_retention is not None
    return layout if own else replace(layout, feed_retention=plan.feed_retention)


def _kept_by(plan: Plan, ref: ResourceRef) -> Iterator[tuple[str, layouts.Layout]]:
    if ref.kind == "table" and (table := plan.table(ref.name)):
        for name in () if table.is_foreign else dict.fromkeys((table.delta_name, table.state)):
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
            yield join.log, replace(channel, columns=f"{channel.columns}, {SELECTED} STRING") if selects else channel
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


def tables_of(plan: Plan) -> Iterator[tuple[ResourceRef, str, layouts.Layout]]:
    """Every Delta table that the plan of an application names, with its resource and its layout."""
    for topic in plan.topics:
        yield topic.ref, topic.delta_name, _followable(layouts.TOPIC, plan)
    for kind in (plan.topics, plan.tables, plan.joins, plan.agents, plan.tasks):
        for resource in kind:
            for table, layout in tables_kept_by(plan, resource.ref):
                yield resource.ref, table, layout


def remove_data(spark: SparkSession, delta: Tables, plan: Plan, ref: ResourceRef) -> None:
    """Remove the tables, the view and the checkpoints of a resource."""
    if ref.kind in {"table", "join"}:  # an agent may share its name with a table, which owns the view
        delta.drop_view(spark, value_view(ref.name))
        delta.drop(spark, differences_table(ref.name))
    for table, _ in tables_kept_by(plan, ref):
        delta.drop(spark, table)
    shutil.rmtree(checkpoints_of(delta, ref), ignore_errors=True)


def create_system_tables(spark: SparkSession, delta: Tables) -> None:
    """Create the schema and the tables whose names start with ``_kaspr``."""
    delta.create_schema(spark)
    side_by_side([partial(delta.create, spark, table, layout) for table, layout in layouts.SYSTEM.items()])


def create_tables(spark: SparkSession, delta: Tables, plan: Plan) -> dict[ResourceRef, str]:
    """Create or register the tables of the application, and set their current retention.

    Returns the resources whose tables cannot be used, with the reasons.
    """
    waiting: dict[ResourceRef, str] = {}

    def create(ref: ResourceRef, table: str, layout: layouts.Layout) -> None:
        with made_to_wait(waiting, ref):
            delta.create(spark, table, layout)

    tables = tuple(tables_of(plan))
    side_by_side([partial(create, *one) for one in tables])
    for ref, table, layout in tables:
        if layout.retention and ref not in waiting:
            with made_to_wait(waiting, ref):
                delta.set_properties(spark, table, layout.retention)
    return waiting


def declare_storage(spark: SparkSession, delta: Tables, plan: Plan) -> Plan:
    """Give the tables of a plan what manifests declare for them. The plan says what the catalog refused.

    Nothing is asked of a catalog about a table that has got its declaration before. One with a refused part is tried
    again each time. A part that is no longer declared stays.
    """
    declared = [one for one in tables_of(plan) if one[-1].storage.fingerprint]
    if not declared:
        return plan
    notices: list[str] = []
    record = Declared(delta.namespace.checkpoints)
    before = record.read()
    after = dict(before)
    for ref, table, layout in declared:
        wanted = layout.storage.fingerprint
        if before.get(table) != wanted or delta.was_created(table):
            errors: dict[ResourceRef, str] = {}
            with made_to_wait(errors, ref):  # it runs all the same
                notices += (refused := delta.declare(spark, table, layout))
                after[table] = "" if refused else wanted
            notices += (f"the storage of {ref} could not be declared: {error}" for error in errors.values())
    if after != before:
        record.write(after)
    return replace(plan, notices=(*plan.notices, *notices))


def create_views(spark: SparkSession, delta: Tables, plan: Plan) -> dict[ResourceRef, str]:
    """Create, for SQL and BI, ``v_<name>`` of every schemaless table and result: keys and values as VARIANT.

    Returns the resources whose views cannot be made, with the reasons.
    """
    waiting: dict[ResourceRef, str] = {}
    for ref, table, columns in _views_of(plan):
        with made_to_wait(waiting, ref):
            delta.create_view(spark, value_view(ref.name), table, columns)
    return waiting


def _views_of(plan: Plan) -> Iterator[tuple[ResourceRef, str, dict[str, str]]]:
    for table in plan.tables:
        if table.typed is not None:
            continue  # a typed table has its own columns
        yield (
            table.ref,
            table.delta_name,
            {
                "key": _variant("key", raw=table.serializers.key == "raw"),
                "value": _variant("value", raw=table.serializers.value == "raw"),
                **({"window_start": "window_start", "window_end": "window_end"} if table.window else {}),
                "timestamp": "timestamp",
            },
        )
    for join in plan.joins:
        if not isinstance(join, TableTableJoinPlan) or join.select is not None:
            continue  # no result table, or one with its own columns
        columns = {"key": _variant("key", raw=False)}
        for name, kind in zip(("left", "right"), plan.column_types(join), strict=True):
            columns[name] = _variant(name, raw=kind is not None)
        yield join.ref, join.result, {**columns, "timestamp": "timestamp"}


def run_of(delta: Tables, plan: Plan, ref: ResourceRef) -> ResourceRun:
    """The parts that run a resource. Raises NotFoundError for a resource that does not run."""
    own = open_tables(delta.namespace, delta.limits)  # so that its statistics are those of this resource alone
    runner = BatchRunner(own, _resource(own, plan, ref))
    recovery = Recovery(runner)
    return ResourceRun(runner, recovery)


def _resource(delta: Tables, plan: Plan, ref: ResourceRef) -> Resource[Any]:
    match plan.running(ref):
        case AggregationPlan() as made:
            return (TableAggregation if isinstance(made.origin, str) else StreamAggregation)(delta, made, plan)
        case AgentPlan() as agent:
            return Agent(delta, agent, plan)
        case TaskPlan() as task:
            return Task(delta, task, plan)
        case TopicPlan() as topic:
            return (Ingest if topic.bound.direction == "input" else Export)(delta, topic, plan)
        case None:
            raise NotFoundError.among("resource that runs", str(ref), map(str, plan.runs))
        case join:
            return _JOINS[type(join)](delta, join, plan)


def _variant(column: str, *, raw: bool) -> str:
    return f"`{column}`" if raw else f"try_parse_json(`{column}`)"

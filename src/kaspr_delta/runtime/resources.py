"""Create the Delta tables and views of a plan, and the parts that run its resources."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
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
from kaspr_delta.engine.joins.stream_stream.stream_stream_join import StreamStreamJoin
from kaspr_delta.engine.joins.stream_table.right_foreign_key_join import RightForeignKeyJoin
from kaspr_delta.engine.joins.stream_table.stream_table_join import StreamTableJoin
from kaspr_delta.errors import NotFoundError, SparkNeededError
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
from kaspr_delta.plan.names import current_view, differences_table, records_view, shown_table, value_view
from kaspr_delta.runtime.current_views import create_current_view
from kaspr_delta.runtime.failures import made_to_wait
from kaspr_delta.spec.ddl import columns_of, quoted
from kaspr_delta.storage import layout as layouts
from kaspr_delta.storage.dialect import SPARK
from kaspr_delta.storage.folders import discard
from kaspr_delta.storage.lazy_session import without_spark
from kaspr_delta.storage.opening import open_tables
from kaspr_delta.storage.plan_tables import Settles, tables_kept_by, tables_of
from kaspr_delta.storage.side_by_side import side_by_side
from kaspr_delta.storage.stored_results import Replacement, results_to_replace
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# The columns of a channel's records; the others are those of its join alone.
_OF_RECORDS = frozenset({"key", "kind", "left", "right", "timestamp", "seq"})
_JOINS: dict[type[JoinPlan], Callable[..., Resource[Any]]] = {
    ForeignKeyJoinPlan: ForeignKeyJoin,
    SameKeyJoinPlan: SameKeyJoin,
    StreamTableJoinPlan: StreamTableJoin,
    RightForeignKeyJoinPlan: RightForeignKeyJoin,
    StreamStreamJoinPlan: StreamStreamJoin,
}


def remove_data(spark: SparkSession, delta: Tables, plan: Plan, ref: ResourceRef) -> None:
    """Remove the tables, the view and the checkpoints of a resource."""
    if ref.kind in {"table", "join"}:  # an agent may share its name with a table, which owns the view
        join = plan.join(ref.name) if ref.kind == "join" and delta.namespace.internal else None
        of_records = [] if join is None else [records_view(join.channel)]
        for view in (value_view(ref.name), current_view(ref.name), *of_records):
            delta.drop_view(spark, view)
        for table in (differences_table(ref.name), shown_table(ref.name)):
            delta.drop(spark, table)
    for table, _ in tables_kept_by(plan, ref):
        delta.drop(spark, table)
    discard(checkpoints_of(delta.namespace, ref))
    Replacement(delta.namespace.checkpoints, ref).end()


def create_tables(spark: SparkSession, delta: Tables, plan: Plan, has: Settles) -> dict[ResourceRef, str]:
    """Create or register the tables of the application, and set the current retention of those that have it not yet.

    Returns the resources whose tables cannot be used, with the reasons.
    """
    waiting: dict[ResourceRef, str] = {}

    def create(ref: ResourceRef, table: str, layout: layouts.Layout) -> None:
        with made_to_wait(waiting, ref):
            delta.create(spark, table, layout)

    tables = tuple(tables_of(plan))
    side_by_side([partial(create, *one) for one in tables])
    for ref, table, layout in tables:
        if layout.retention and ref not in waiting and not has(table, layout):
            with made_to_wait(waiting, ref):
                delta.set_properties(spark, table, layout.retention)
    return waiting


def create_tables_here(delta: Tables, plan: Plan, has: Settles) -> dict[str, str]:
    """Create the tables of a plan that are missing, without Spark.

    Returns the fingerprints of the layouts, by table. Raises SparkNeededError if only Spark can create one, or would
    change one.
    """
    spark = without_spark()
    tables = [(table, layout) for _, table, layout in tables_of(plan)]
    for table, layout in layouts.SYSTEM.items():
        if not delta.is_known(table):
            delta.create(spark, table, layout)
    for table, layout in tables:
        if not delta.is_known(table):
            delta.create(spark, table, layout)
        elif not has(table, layout) and not delta.has_layout(table, layout):
            raise SparkNeededError(f"only Spark changes the table '{table}'")
        if not layout.storage.only_comments and not has(table, layout):
            raise SparkNeededError(f"only Spark declares the storage of '{table}'")
    return {table: layout.fingerprint for table, layout in tables}


def declare_storage(spark: SparkSession, delta: Tables, plan: Plan, has: Settles) -> tuple[Plan, dict[str, str]]:
    """Give the tables of a plan what manifests declare for them. The plan says what the catalog refused.

    A table with a refused part is tried again each time. A part that is no longer declared stays. Results that a
    rebuild makes anew are left alone. Returns also the fingerprints of the layouts, by table, of tables without a
    refused part: they have got everything.
    """
    notices: list[str] = []
    got: dict[str, str] = {}
    left_alone = {join.result for join in results_to_replace(plan)}
    for ref, table, layout in tables_of(plan):
        if table in left_alone:
            continue
        if layout.storage.fingerprint and not has(table, layout):
            errors: dict[ResourceRef, str] = {}
            with made_to_wait(errors, ref):  # it runs all the same
                errors_of_catalog = delta.declare(spark, table, layout)
                notices += errors_of_catalog
                if not errors_of_catalog:
                    got[table] = layout.fingerprint
            notices += (f"the storage of {ref} could not be declared: {error}" for error in errors.values())
        else:
            got[table] = layout.fingerprint
    return replace(plan, notices=(*plan.notices, *notices)), got


def create_views(
    spark: SparkSession, delta: Tables, plan: Plan, has: Settles, replaced: Collection[ResourceRef]
) -> dict[ResourceRef, str]:
    """Create, for SQL and BI, ``v_<name>`` of every schemaless table and result: keys and values as VARIANT.

    A result that is compared with that of a changed definition also has its current view, which is made anew for
    joins whose results may have been ``replaced``. Returns the resources whose views cannot be made, with the reasons.
    """
    waiting: dict[ResourceRef, str] = {}
    for ref, table, columns in _views_of(plan):
        with made_to_wait(waiting, ref):
            delta.create_view(spark, value_view(ref.name), table, columns)
    for ref, reaction in plan.on_change:
        if reaction == "side-by-side" and ref in plan.runs:
            with made_to_wait(waiting, ref):
                create_current_view(spark, delta, plan, ref, has, anew=ref in replaced)
    return waiting


def create_records_views(spark: SparkSession, delta: Tables, plan: Plan, has: Settles) -> list[str]:
    """Create a view of the records of each channel that lies among internal tables. Returns notices about errors.

    One that is there stays, unless the channel got another layout and the view has other columns.
    """
    errors: dict[ResourceRef, str] = {}
    kinds = ", ".join(map(SPARK.text, layouts.RECORDS))
    for join in plan.joins if delta.namespace.internal else ():
        view, layout = records_view(join.channel), dict(tables_kept_by(plan, join.ref))[join.log]
        columns = [column for column in columns_of(layout.columns) if column.name in _OF_RECORDS]
        with made_to_wait(errors, join.ref):  # it runs all the same
            is_known = delta.is_known(view) and not has(join.log, layout)
            if is_known and delta.columns(spark, view) != tuple(columns):
                delta.drop_view(spark, view)
            selected = {column.name: quoted(column.name) for column in columns}
            delta.create_view(spark, view, join.log, selected, only=f"kind IN ({kinds})")
    return [f"the view of the records of {ref} could not be made: {error}" for ref, error in errors.items()]


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
        if not isinstance(join, TableTableJoinPlan) or join.select is not None or join.other_columns:
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

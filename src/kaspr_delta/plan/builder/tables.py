"""Plans of tables."""

from __future__ import annotations

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication, channel_of
from kaspr_delta.plan.builder.sides import Sides
from kaspr_delta.plan.definition.joins import AggregationPlan, StreamPlan
from kaspr_delta.plan.definition.resources import Serializers, TablePlan
from kaspr_delta.plan.definition.storage import StoragePlan
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.plan.definition.window import WindowPlan
from kaspr_delta.plan.names import (
    aggregation_table,
    changelog_topic,
    contributions_table,
    delta_name,
    group_times_table,
)
from kaspr_delta.spec.aggregation import OPERATIONS, stream_origin_problems, table_origin_problems
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.spec.diagnostics import Report
from kaspr_delta.spec.durations import milliseconds
from kaspr_delta.spec.table import TableSpec, Window
from kaspr_delta.spec.topics import DEFAULT_RETENTION, Origin, deletes, retention


def table_plan(application: DeclaredApplication, table: Declared[TableSpec], report: Report) -> TablePlan:
    """The plan of a table. For a table with a ``from``, an AggregationPlan has how it is made."""
    spec, configs = table.spec, table.spec.extra_topic_configs
    source = spec.source.table if spec.source else None
    if spec.source is not None and spec.source.is_path:
        source = table.path(spec.source.table, report, "source", "table")
    old_rows_go = deletes(configs, "compact")
    return TablePlan(
        name=table.name,
        delta_name=source or delta_name(table.name),
        changelog=changelog_topic(application.name, table.name),
        # The table's own, or json: the application's defaults are for topics.
        serializers=Serializers(spec.key_serializer, spec.value_serializer),
        partitions=spec.partitions or application.defaults.partitions,
        is_global=spec.is_global,
        default=table.snippet("defaultSelector"),
        window=_window(table, spec.window) if spec.window else None,
        retention=(retention(configs) or DEFAULT_RETENTION) if old_rows_go else None,
        feed_retention=None if old_rows_go else retention(configs),
        description=spec.description,
        location=table.location,
        typed=_typed(spec, source),
        storage=StoragePlan() if spec.source else StoragePlan.of(spec.description, spec.storage, spec.columns),
    )


def _typed(spec: TableSpec, source: str | None) -> TypedPlan | None:
    if source is not None:
        return TypedPlan(spec.key_columns, (), source)
    return TypedPlan(spec.key_columns, columns_of(spec.columns)) if spec.columns else None


def _window(table: Declared[TableSpec], spec: Window) -> WindowPlan:
    of = spec.hopping or spec.tumbling
    assert of is not None  # noqa: S101  every window is one of the two
    return WindowPlan(
        size=milliseconds(of.size),
        step=milliseconds(spec.hopping.step if spec.hopping else of.size),
        expires=milliseconds(of.expires) if of.expires is not None else None,
        grace=milliseconds(spec.grace),
        emit=spec.emit,
        relative_to=spec.relative_to,
        selector=table.snippet("window", "relativeToSelector"),
    )


def aggregation_plan(table: Declared[TableSpec], sides: Sides) -> AggregationPlan | None:
    """The aggregation of a table; None if it has no ``from``, or waits."""
    spec = table.spec
    written = spec.model_dump(by_alias=True, exclude_none=True)
    kind = next((name for name in OPERATIONS if name in written), None)
    if spec.from_ is None or kind is None:
        return None
    origin = _origin(table, spec.from_, sides)
    if origin is None or table.ref in sides.references.waiting:
        return None
    return AggregationPlan(
        name=table.name,
        kind=kind,
        origin=origin,
        group=table.snippet("groupBy"),
        initializer=table.snippet("aggregate", "initializer"),
        adder=table.snippet("aggregate", "adder") or table.snippet("reduce"),
        subtractor=table.snippet("aggregate", "subtractor"),
        log=aggregation_table(table.name),
        contributions=contributions_table(table.name),
        group_times=group_times_table(table.name),
        location=table.location,
    )


def _origin(table: Declared[TableSpec], given: Origin, sides: Sides) -> StreamPlan | str | None:
    """The stream, or the name of the table or join; None if it is missing or cannot be an origin."""
    references = sides.references
    if given.table is not None:
        return given.table if references.rows(table, given.table, "from", "table") else None
    if given.join is not None:
        join = references.join(table, given.join, "from", "join")
        if join is None:
            return None
        # Only here is it known whether the join gives a table or a stream.
        rules = table_origin_problems if join.spec.has_result else stream_origin_problems
        for problem in rules(table.spec.model_dump(by_alias=True, exclude_none=True), ("from", "join")):
            references.report.problem(table.loaded.positions, ("spec",), problem)
        if join.spec.has_result:
            return given.join
        given = Origin(channel=channel_of(join))
    side = sides.records(table, "from", given)
    return side.stream if side else None

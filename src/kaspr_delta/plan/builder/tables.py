"""Plans of tables."""

from __future__ import annotations

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication
from kaspr_delta.plan.builder.defaults import Defaults
from kaspr_delta.plan.definition.resources import Serializers, TablePlan
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.plan.definition.window import WindowPlan
from kaspr_delta.plan.names import changelog_topic, delta_name
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.spec.durations import milliseconds
from kaspr_delta.spec.table import TableSpec, Window
from kaspr_delta.spec.topic_configs import DEFAULT_RETENTION, deletes, retention


def table_plan(application: DeclaredApplication, table: Declared[TableSpec], defaults: Defaults) -> TablePlan:
    """The plan of a table. For a table with a ``from``, an AggregationPlan has how it is made."""
    spec, configs = table.spec, table.spec.extra_topic_configs
    old_rows_go = deletes(configs, "compact")
    return TablePlan(
        name=table.name,
        delta_name=spec.source.table if spec.source else delta_name(table.name),
        changelog=changelog_topic(application.name, table.name),
        # The table's own, or json: the application's defaults are for topics.
        serializers=Serializers(spec.key_serializer, spec.value_serializer),
        partitions=spec.partitions or defaults.partitions,
        is_global=spec.is_global,
        default=table.snippet(spec.default_selector, "defaultSelector"),
        window=_window(table, spec.window) if spec.window else None,
        retention=(retention(configs) or DEFAULT_RETENTION) if old_rows_go else None,
        feed_retention=None if old_rows_go else retention(configs),
        description=spec.description,
        location=table.location,
        typed=_typed(spec),
    )


def _typed(spec: TableSpec) -> TypedPlan | None:
    if spec.source is not None:
        return TypedPlan(spec.key_columns, (), spec.source.table)
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
        selector=table.snippet(spec.relative_to_selector, "window", "relativeToSelector"),
    )

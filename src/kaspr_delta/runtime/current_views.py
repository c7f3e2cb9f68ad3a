"""The current view of a result with ``onChange: side-by-side``: the stored result or, on demand, the new one.

Rows of ``shown__<name>`` stand for those of the result, and the view stays as it is. Where a rebuild gives the result
other columns, the view is over one of the two tables alone, and is made anew to turn it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.names import current_view, shown_table
from kaspr_delta.spec.ddl import columns_of, quoted
from kaspr_delta.storage.layout import PAIR, Layout
from kaspr_delta.storage.plan_tables import Settles, tables_kept_by
from kaspr_delta.storage.stored_results import changes_to, is_to_replace, problems_of
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create_current_view(  # noqa: PLR0913  the view, and what is known of it
    spark: SparkSession,
    delta: Tables,
    plan: Plan,
    ref: ResourceRef,
    has: Settles = lambda _table, _layout: False,
    *,
    anew: bool = False,
) -> None:
    """Create the current view of a result, with the columns that it has now, or make it anew.

    One that is there stays unless its columns are others. Tables that ``have`` got their layouts are not looked at.
    Rows to show are dropped if they are those of a definition with other columns. Raises SetupError for an external
    table that can neither get the columns of the definition nor be dropped.
    """
    view, result, shown = current_view(ref.name), plan.table_or_result(ref.name).delta_name, shown_table(ref.name)
    layouts, expects_others = dict(tables_kept_by(plan, ref)), is_to_replace(plan, ref)
    changed = not has(shown, layouts[shown]) and _fit(spark, delta, shown, layouts[shown])
    stored = delta.columns(spark, result) if expects_others else columns_of(layouts[result].columns)
    are_others, only = bool(problems_of(stored, layouts[result])), ""
    table, columns = result, [column for column in stored if column.name != PAIR]
    if are_others and delta.count(spark, shown):
        table, only = shown, "keep"
        columns = [one for one in columns_of(layouts[shown].columns) if one.name not in {PAIR, "keep"}]
    is_other = expects_others and delta.is_known(view) and delta.columns(spark, view) != tuple(columns)
    if changed or anew or is_other or not delta.keeps_views:
        delta.drop_view(spark, view)
    selected = {column.name: quoted(column.name) for column in columns}
    delta.create_view(spark, view, table, selected, None if are_others else shown, only)


def _fit(spark: SparkSession, delta: Tables, shown: str, layout: Layout) -> bool:
    """Give a table of rows to show the columns of its layout; return whether it had others. Then it has no rows."""
    added, problems = changes_to(layout, delta.columns(spark, shown))
    location = delta.files_stay_at(shown)
    if problems and location is not None:
        raise SetupError(
            f"its external table {shown} has other columns, and its files would stay at {location}: change them back,"
            " or drop that table, remove that folder, and run again"
        )
    if problems:
        delta.drop(spark, shown)
        delta.create(spark, shown, layout)
    elif added:
        delta.delete(spark, shown, "true")
        delta.add_columns(spark, shown, added)
    return bool(problems or added)

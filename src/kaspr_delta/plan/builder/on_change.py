"""``onChange``: the resources that a run makes anew by itself when their definition has changed."""

from __future__ import annotations

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication
from kaspr_delta.plan.definition.joins import AggregationPlan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.spec.diagnostics import Report
from kaspr_delta.spec.join import JoinSpec
from kaspr_delta.spec.table import TableSpec


def rebuilt_on_change(
    application: DeclaredApplication, aggregations: tuple[AggregationPlan, ...], report: Report
) -> tuple[ResourceRef, ...]:
    """The resources with ``onChange: rebuild``, their own or the application's.

    A resource whose state is not made from tables cannot have it: that is an error.
    """
    over_tables = {made.ref: isinstance(made.origin, str) for made in aggregations}
    found = []
    for join in application.joins.values():
        found += _rebuilt(application, join, report, possible=join.spec.has_result)
    for table in application.tables.values():
        # A table that waits is not planned yet.
        possible = table.spec.from_ is not None and over_tables.get(table.ref, True)
        found += _rebuilt(application, table, report, possible=possible)
    return tuple(found)


def _rebuilt(
    application: DeclaredApplication, one: Declared[JoinSpec] | Declared[TableSpec], report: Report, *, possible: bool
) -> list[ResourceRef]:
    own = one.spec.on_change
    if not possible and own == "rebuild":
        message = f"{one.ref} has no state that could be made anew from tables"
        hint = "remove 'onChange': it is for joins of two tables, and for tables made from a table"
        report.error(one.at("onChange"), message, hint)
    return [one.ref] if possible and (own or application.defaults.on_change) == "rebuild" else []

"""``onChange``: the reactions of resources to a definition that has changed."""

from __future__ import annotations

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication
from kaspr_delta.plan.definition.joins import AggregationPlan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.spec.diagnostics import Report
from kaspr_delta.spec.join import JoinSpec
from kaspr_delta.spec.resource import OnChange
from kaspr_delta.spec.table import TableSpec

Reactions = tuple[tuple[ResourceRef, OnChange], ...]


def reactions(application: DeclaredApplication, aggregations: tuple[AggregationPlan, ...], report: Report) -> Reactions:
    """The reactions of resources with another ``onChange`` than ``refuse``, their own or the application's.

    A resource whose state is not made from tables cannot have it: that is an error.
    """
    over_tables = {made.ref: isinstance(made.origin, str) for made in aggregations}
    found: list[tuple[ResourceRef, OnChange]] = []
    for join in application.joins.values():
        found += _reaction(application, join, report, possible=join.spec.has_result)
    for table in application.tables.values():
        # A table that waits is not planned yet.
        possible = table.spec.from_ is not None and over_tables.get(table.ref, True)
        found += _reaction(application, table, report, possible=possible)
    return tuple(found)


def _reaction(
    application: DeclaredApplication, one: Declared[JoinSpec] | Declared[TableSpec], report: Report, *, possible: bool
) -> Reactions:
    own = one.spec.on_change
    reaction = own or application.defaults.on_change
    if not possible and own not in {None, "refuse"}:
        message = f"{one.ref} has no state that could be made anew from tables"
        hint = "remove 'onChange': it is for joins of two tables, and for tables made from a table"
        report.error(one.at("onChange"), message, hint)
    return ((one.ref, reaction),) if possible and reaction != "refuse" else ()

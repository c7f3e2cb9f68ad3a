"""The stored results of joins and made tables that wait: they can be read, whatever has become of their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinPlan, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.plan.definition.selects import SelectPlan
from kaspr_delta.runtime.typed_tables import TypedTables
from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.layout import PAIR, WRITTEN_AT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class StoredResults:
    """The results in the tables of an application. ``declared`` is the plan of everything that was applied."""

    spark: SparkSession
    delta: Tables
    declared: Plan

    def join(self, join: JoinPlan) -> Plan | None:
        """The plan in which a join, and its sides, have the columns of its stored results; None without results."""
        plan = self.declared
        for side in (join.left, join.right):
            below = plan.join(side) if isinstance(side, str) else None
            if below is not None:  # a result that stands where a table does
                plan = StoredResults(self.spark, self.delta, plan).join(below) or plan
        if not isinstance(join, TableTableJoinPlan):
            there = self.delta.exists(self.spark, join.log)
            return _with_sides(plan, join, {join.right: None} if isinstance(join.right, str) else {}) if there else None
        if not self.delta.exists(self.spark, join.result):
            return None
        columns = self.delta.columns(self.spark, join.result)
        selects = any(column.name == PAIR for column in columns)
        shown = tuple(column for column in columns if column.name not in {"key", WRITTEN_AT, PAIR})
        types = TypedTables(self.spark, self.delta).stored_types(join)
        stored = replace(join, select=SelectPlan((), None, shown) if selects else None, stored=types)
        return _with_sides(plan, stored, {join.left: types[0], join.right: types[1]})


def _with_sides(plan: Plan, join: JoinPlan, sides: Mapping[str, Type | None]) -> Plan:
    tables = (_as_stored(one, sides[one.name]) if one.name in sides else one for one in plan.tables)
    joins = (join if one.ref == join.ref else one for one in plan.joins)
    return replace(plan, tables=tuple(tables), joins=tuple(joins))


def _as_stored(table: TablePlan, row: Type | None) -> TablePlan:
    """A side with the columns of its stored rows; None: they are JSON."""
    if table.typed is None:
        return table
    return replace(table, typed=None if row is None else replace(table.typed, columns=row.fields))

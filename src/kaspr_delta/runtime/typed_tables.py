"""Reads the columns of existing tables into the plan: of tables that others write, and of stored typed tables.

They are read once, before anything runs. A resource whose columns do not fit waits, with the reason; the others run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kaspr_delta.control.source_tables import columns_in_folder, does_not_tell, is_missing, looked_up
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinPlan, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef, TablePlan
from kaspr_delta.plan.definition.typed_tables import changed_columns
from kaspr_delta.plan.definition.waiting import without
from kaspr_delta.runtime.resources import tables_kept_by
from kaspr_delta.spec.ddl import Column, Type, columns_of
from kaspr_delta.storage.opening import folder_tables
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class TypedTables:
    """Reads and widens the typed tables of an application."""

    spark: SparkSession
    delta: Tables

    def known(self, plan: Plan) -> Plan:
        """The plan with the columns of tables that others write, without the resources that have to wait."""
        plan = without(*looked_up(plan, self._columns_of))
        return replace(plan, joins=tuple(map(self._as_stored, plan.joins)))

    def follow(self, plan: Plan) -> Plan:
        """Add new columns to the stored tables. A resource whose columns were removed or changed otherwise waits."""
        waiting: dict[ResourceRef, str] = {}
        notices: list[str] = []
        typed = [table for table in plan.tables if table.typed is not None and not table.is_foreign]
        joins = [join for join in plan.joins if isinstance(join, TableTableJoinPlan)]
        for resource in (*typed, *joins):
            reasons: list[str] = []
            new: list[str] = []
            for table, wanted in self._stored(plan, resource):
                added, problems = self._widen(table, wanted)
                reasons += problems
                new += added
            if new:
                names = ", ".join(dict.fromkeys(new))
                notices.append(f"{resource.ref} has more columns from now on: {names}. Rows get them when they change")
            if reasons:
                kind = resource.ref.kind
                waiting[resource.ref] = (
                    f"{'; '.join(dict.fromkeys(reasons))}: change it back, or make the {kind} anew with"
                    f" `kaspr-delta delete {kind} {resource.name} --purge`"
                )
        return replace(without(plan, waiting), notices=tuple(notices))

    def _columns_of(self, table: str) -> tuple[Column, ...] | str | None:
        """Implements ColumnsOf: by delta-rs in a folder of this machine if it can, else by Spark."""
        local = folder_tables(self.delta.namespace)
        found = None if local is None else columns_in_folder(local, table)
        if found is not None:
            return found
        if not self._is_there(table):
            return is_missing(table)
        if not self.delta.has_change_feed(self.spark, table):
            return does_not_tell(table, self.delta.namespace)
        return self.delta.columns(self.spark, table)

    def _as_stored(self, join: JoinPlan) -> JoinPlan:
        """A join with the types of its sides from its channel, if that exists and has types."""
        if not isinstance(join, TableTableJoinPlan) or not self._is_there(join.log):
            return join
        types = {column.name: column.type for column in self.delta.columns(self.spark, join.log)}
        left, right = (types[side] if types[side].name == "STRUCT" else None for side in ("left", "right"))
        return replace(join, stored=(left, right))

    def _is_there(self, table: str) -> bool:
        from pyspark.errors import AnalysisException

        try:
            return self.delta.exists(self.spark, table)
        except AnalysisException:  # its schema does not exist
            return False

    def _stored(self, plan: Plan, resource: TablePlan | TableTableJoinPlan) -> Iterator[tuple[str, tuple[Column, ...]]]:
        """The existing tables of a resource, with the columns that they should have.

        For a join of JSON rows without a select, only the result: it may have the columns of an earlier select.
        """
        only = None
        if not isinstance(resource, TablePlan) and not resource.select and not any(plan.column_types(resource)):
            only = resource.result
        for name, layout in tables_kept_by(plan, resource.ref):
            if name == (only or name) and self.delta.exists(self.spark, name):
                yield name, columns_of(layout.columns)

    def _widen(self, table: str, wanted: tuple[Column, ...]) -> tuple[list[str], list[str]]:
        """Add missing columns. Returns their names, and the differences that added columns cannot solve."""
        has, should = (Type("STRUCT", fields=one) for one in (self.delta.columns(self.spark, table), wanted))
        added, problems = changed_columns(has, should)
        if added and not problems:
            self.delta.add_columns(self.spark, table, added)
            return [name for name, _ in added], []
        return [], problems

"""Reads the columns of existing tables into the plan: of tables that others write, and of stored typed tables.

They are read once, before anything runs. A resource whose columns do not fit waits, with the reason; the others run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kaspr_delta.control.source_tables import columns_in_folder, is_missing, looked_up, policy_notice, refusal
from kaspr_delta.control.stored_tables import (
    is_plain,
    is_replaced,
    misfits,
    other_key,
    read_table,
    resources_with_tables,
    with_remedy,
)
from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinPlan, StoredTypes, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef, TablePlan
from kaspr_delta.plan.definition.waiting import without_waiting
from kaspr_delta.plan.names import shown_table
from kaspr_delta.runtime.failures import made_to_wait
from kaspr_delta.spec.ddl import Column, Type, columns_of, quoted
from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.opening import folder_tables
from kaspr_delta.storage.plan_tables import Settles, tables_kept_by
from kaspr_delta.storage.stored_results import Replacement, as_stored, result_layout_of
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class TypedTables:
    """Reads the typed tables of an application, and adds new columns to them if it ``adds``.

    If it ``waits``, a resource without its new columns waits for whoever adds them. It does not look at a table that
    ``has`` got its layout. Of tables that are ``known_before`` it takes these columns, and looks at no other ones. It
    notes in ``seen`` the columns of all that it can read, but for tables with policies.
    """

    spark: SparkSession
    delta: Tables
    adds: bool = True
    waits: bool = False
    has: Settles = lambda _table, _layout: False
    known_before: dict[str, tuple[Column, ...]] = field(default_factory=dict)
    seen: dict[str, tuple[Column, ...]] = field(default_factory=dict)

    def known(self, plan: Plan) -> Plan:
        """The plan with the columns of tables that others write, without the resources that have to wait."""
        waiting: dict[ResourceRef, str] = {}
        notices: list[str] = []

        def columns_of(table: str) -> tuple[Column, ...] | str | None:
            ref, unread = ResourceRef("table", table), dict[ResourceRef, str]()
            found: tuple[Column, ...] | str | None = self.known_before.get(table)
            if found is not None:
                return found
            with made_to_wait(unread, ref):
                found = self.columns_of_source(table)
                if isinstance(found, tuple):
                    if policies := self.delta.policies(self.spark, table):
                        notices.append(policy_notice(table, policies))
                    else:
                        self.seen[table] = found
            return unread.get(ref, found)

        plan = without_waiting(*looked_up(plan, columns_of))
        joins = []
        for join in plan.joins:
            with made_to_wait(waiting, join.ref):
                # Rows without types are stored as text.
                if isinstance(join, TableTableJoinPlan) and any(side.has_types for side in plan.sides_of(join)):
                    join = replace(join, stored=self.stored_types(join))  # noqa: PLW2901
            joins.append(join)
        return without_waiting(replace(plan, joins=tuple(joins), notices=tuple(notices)), waiting)

    def follow(self, plan: Plan) -> Plan:
        """Add new columns to the stored tables. A resource whose columns were removed or changed otherwise waits.

        A join of which only the result has other columns runs: it asks for a rebuild, which makes the result anew.
        Resources that read it wait for that.
        """
        waiting: dict[ResourceRef, str] = {}
        to_replace: dict[ResourceRef, tuple[Column, ...]] = {}
        notices: list[str] = []
        for resource in resources_with_tables(plan):
            reasons: list[str] = []
            new: list[str] = []
            with made_to_wait(waiting, resource.ref):
                for table, layout, has, wanted in self._stored(plan, resource):
                    if layout.names_key:
                        reasons += other_key(layout, self.delta.named_key(self.spark, table))
                    added, problems = self._widen(resource, table, has, wanted)
                    new += added
                    if problems and not self.waits and is_replaced(plan, resource, table, has, self._columns):
                        to_replace[resource.ref] = has
                    else:
                        reasons += problems
            if isinstance(resource, TableTableJoinPlan) and self._is_being_replaced(plan, resource):
                to_replace.setdefault(resource.ref, columns_of(result_layout_of(plan, resource).columns))
            if new:
                names = ", ".join(dict.fromkeys(new))
                notices.append(f"{resource.ref} has more columns from now on: {names}. Rows get them when they change")
            if reasons:
                waiting[resource.ref] = with_remedy(resource.ref, reasons)
        joins = (
            replace(join, other_columns=to_replace.get(join.ref, ())) if isinstance(join, TableTableJoinPlan) else join
            for join in plan.joins
        )
        readers = {reader: f"waits for {ref}" for ref in to_replace for reader in plan.readers_of_result(ref.name)}
        waiting = {**readers, **waiting}
        plan = replace(plan, joins=tuple(joins), notices=(*plan.notices, *notices))
        return without_waiting(plan, waiting)

    def columns_of_source(self, table: str) -> tuple[Column, ...] | str | None:
        """Implements ColumnsOf: by delta-rs in a folder, here or in a bucket, if it can, else by Spark."""
        local = folder_tables(self.delta.namespace)
        found = None if local is None else columns_in_folder(local, table)
        if found is not None:
            return found
        described = self.delta.describe(self.spark, table)
        if described is None:
            return is_missing(table)
        refused = refusal(
            table, described, self.delta.namespace, reads_changes=lambda: self.delta.reads_changes(self.spark, table)
        )
        return refused or self.delta.columns(self.spark, table)

    def stored_types(self, join: TableTableJoinPlan) -> StoredTypes:
        """The types of left and right in a join's channel; None: text, or there is no channel."""
        columns = self.known_before.get(join.log)
        if columns is None:
            if not self.delta.exists(self.spark, join.log):
                return None, None
            columns = self.seen[join.log] = self.delta.columns(self.spark, join.log)
        types = {column.name: column.type for column in columns}
        left, right = (types[side] if types[side].name == "STRUCT" else None for side in ("left", "right"))
        return left, right

    def _stored(
        self, plan: Plan, resource: TablePlan | TableTableJoinPlan
    ) -> Iterator[tuple[str, Layout, tuple[Column, ...], tuple[Column, ...]]]:
        """The existing tables of a resource, with their layouts, their columns, and those that they should have.

        See ``is_plain``. In the other tables of a join, columns that only an older version wrote do not count. The rows
        that a current view shows are not among them: whoever makes the view makes that table anew.
        """
        only = read_table(resource) if is_plain(plan, resource) else None
        for name, layout in tables_kept_by(plan, resource.ref):
            if name == shown_table(resource.name):
                continue
            if name == (only or name) and not self.has(name, layout) and self.delta.exists(self.spark, name):
                has, wanted = self.delta.columns(self.spark, name), columns_of(layout.columns)
                if not isinstance(resource, TablePlan) and name != resource.result:
                    has = tuple(column for column in has if column.name in {one.name for one in wanted})
                yield name, layout, has, wanted

    def _is_being_replaced(self, plan: Plan, join: TableTableJoinPlan) -> bool:
        replacement = Replacement(self.delta.namespace.checkpoints, join.ref)
        return not self.has(join.result, result_layout_of(plan, join)) and replacement.is_under_way

    def _columns(self, table: str) -> tuple[Column, ...]:
        return self.delta.columns(self.spark, table)

    def _widen(
        self,
        resource: TablePlan | TableTableJoinPlan,
        table: str,
        has: tuple[Column, ...],
        wanted: tuple[Column, ...],
    ) -> tuple[list[str], list[str]]:
        """Add missing columns. Returns their names, and the differences that added columns cannot solve.

        Raises SetupError for columns that another process adds.
        """
        added, problems = misfits(resource, has, wanted)
        if added and not problems and self.waits:
            names = ", ".join(".".join(path) for path, _ in added)
            raise SetupError(f"waits until its manifests are applied: its table gets more columns then ({names})")
        if added and not problems and self.adds:
            self.delta.add_columns(self.spark, table, added)
            self.seen.pop(table, None)
            self.known_before.pop(table, None)
            return [".".join(map(quoted, path)) for path, _ in added], []
        return [], problems


def with_stored_results(spark: SparkSession, delta: Tables, plan: Plan, join: JoinPlan) -> Plan | None:
    """The plan in which a join, and its sides, have the columns of its stored results; None without results.

    By it the results of a join that waits can be read, whatever has become of its sources.
    """
    for side in (join.left, join.right):
        below = plan.join(side) if isinstance(side, str) else None
        if below is not None:  # a result that stands where a table does
            plan = with_stored_results(spark, delta, plan, below) or plan
    if not isinstance(join, TableTableJoinPlan):
        there = delta.exists(spark, join.log)
        return _with_sides(plan, join, {join.right: None} if isinstance(join.right, str) else {}) if there else None
    if not delta.exists(spark, join.result):
        return None
    types = TypedTables(spark, delta).stored_types(join)
    stored = as_stored(join, delta.columns(spark, join.result), types)
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

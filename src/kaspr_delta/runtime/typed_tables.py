"""Reads the columns of existing tables into the plan: of tables that others write, and of stored typed tables.

They are read once, before anything runs. A resource whose columns do not fit waits, with the reason; the others run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import networkx as nx

from kaspr_delta.control.source_columns import column_reasons, does_not_tell
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinPlan, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import AgentPlan, ResourceRef, TablePlan, TaskPlan, WebViewPlan
from kaspr_delta.plan.definition.typed_joins import type_problems
from kaspr_delta.plan.definition.typed_tables import changed_columns
from kaspr_delta.runtime.resources import tables_kept_by
from kaspr_delta.spec.ddl import Column, Type, columns_of, quoted
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
        waiting: dict[ResourceRef, str] = {}
        tables = []
        for table in plan.tables:
            if table.is_foreign:
                found = self._foreign(table)
                if isinstance(found, str):
                    waiting[table.ref] = found
                    continue
                table = found  # noqa: PLW2901
            tables.append(table)
        plan = _without(replace(plan, tables=tuple(tables)), waiting)
        plan = replace(plan, joins=tuple(map(self._as_stored, plan.joins)))
        problems = {join.ref: [misfit.message for misfit in type_problems(plan, join)] for join in _typed_joins(plan)}
        return _without(plan, {ref: "; ".join(messages) for ref, messages in problems.items() if messages})

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
        return replace(_without(plan, waiting), notices=tuple(notices))

    def _foreign(self, table: TablePlan) -> TablePlan | str:
        """The table with its columns, or the reason why it cannot be read."""
        name = table.delta_name
        if table.typed is None or not self._is_there(name):
            return f"'{name}', which it stands for, is not there"
        if not self.delta.has_change_feed(self.spark, name):
            return does_not_tell(name, self.delta.namespace)
        columns = self.delta.columns(self.spark, name)
        return column_reasons(name, table.typed, columns) or replace(table, typed=replace(table.typed, columns=columns))

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
            return [".".join(map(quoted, path)) for path, _ in added], []
        return [], problems


def _typed_joins(plan: Plan) -> list[TableTableJoinPlan]:
    return [join for join in plan.joins if isinstance(join, TableTableJoinPlan) and any(plan.column_types(join))]


def _without(plan: Plan, waiting: dict[ResourceRef, str]) -> Plan:
    """The plan without the resources that wait and the resources that read them."""
    if not waiting:
        return plan
    # Only tables and joins: the output of an agent that waits exists all the same.
    read = [(edge.source, edge.target) for edge in plan.edges if edge.source.startswith(("table/", "join/"))]
    graph: nx.DiGraph[str] = nx.DiGraph(read)
    pipelines: tuple[AgentPlan | TaskPlan | WebViewPlan, ...] = (*plan.agents, *plan.tasks, *plan.web_views)
    graph.add_edges_from((f"table/{table}", str(one.ref)) for one in pipelines for table in one.tables)
    reasons = dict(waiting)
    known = (*(one.ref for one in plan.tables), *(one.ref for one in plan.joins), *(one.ref for one in pipelines))
    refs = {str(ref): ref for ref in known}
    for ref, reason in waiting.items():
        readers: Iterable[str] = nx.descendants(graph, str(ref)) if str(ref) in graph else ()
        for reader in readers:
            if reader in refs:
                reasons.setdefault(refs[reader], f"{ref} waits: {reason}")
    stages = (replace(s, resources=tuple(r for r in s.resources if r not in reasons)) for s in plan.stages)
    return replace(
        plan,
        tables=tuple(one for one in plan.tables if one.ref not in reasons),
        joins=tuple(one for one in plan.joins if one.ref not in reasons),
        aggregations=tuple(one for one in plan.aggregations if one.ref not in reasons),
        agents=tuple(one for one in plan.agents if one.ref not in reasons),
        tasks=tuple(one for one in plan.tasks if one.ref not in reasons),
        web_views=tuple(one for one in plan.web_views if one.ref not in reasons),
        groups=tuple(kept for group in plan.groups if (kept := tuple(ref for ref in group if ref not in reasons))),
        stages=tuple(stage for stage in stages if stage.resources),
        waiting=tuple(sorted({**dict(plan.waiting), **reasons}.items())),
    )

"""The numbers of an application: rows, totals of batches, dead letters and lag. One that cannot be read is a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kaspr_delta.control.dead_letters import letters_in, summed_by_resource
from kaspr_delta.control.documents import Document
from kaspr_delta.control.lag import lags_of
from kaspr_delta.control.rebuilds import Query, rebuilds_in
from kaspr_delta.control.registry import Registry
from kaspr_delta.control.resource_status import kept_in
from kaspr_delta.control.source_tables import as_found
from kaspr_delta.control.totals import LocalTotals, Totals, totals_by_spark
from kaspr_delta.engine.batch.counters import Metric, as_metrics
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.page_reads import NativePageReads
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.page_reads import PageReads
from kaspr_delta.storage.system_tables import SystemTables


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of an application at one moment, each a number or why it cannot be read.

    ``counts``: rows by Delta table; ``done``: see ``Totals.resources``; ``counters`` by ``kind/name``; ``letters`` by
    ``kind/name`` and source; ``lags``: the rows and records still to be read, by resource and source; ``rebuilds``: the
    resources that need one, with the reasons, as far as they are known.
    """

    counts: Mapping[str, int | str]
    done: Mapping[str, Mapping[str, Any]] | str
    letters: Mapping[tuple[str, str], int] | str
    counters: Mapping[str, list[Metric]] = field(default_factory=dict)
    lags: Mapping[ResourceRef, Mapping[str, int] | str] = field(default_factory=dict)
    rebuilds: Mapping[ResourceRef, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, plan: Plan, only: ResourceRef | None, tables: PageReads, totals: Callable[[], Totals], query: Query
    ) -> Figures:
        """The numbers of an application without its lags, all asked for at once. Rows are counted of all or of one."""
        with ThreadPoolExecutor() as at_once:
            adding = at_once.submit(readable, "the progress of resources", totals)
            failed = at_once.submit(readable, "the dead letters", partial(letters_in, query))
            starting = at_once.submit(readable, "the states of resources", partial(rebuilds_in, plan, query))
            counts = tables.counts(_tables_with_rows(plan, only))
        done, letters, rebuilds = adding.result(), failed.result(), starting.result()
        return cls(
            counts,
            done if isinstance(done, str) else done.resources,
            letters,
            {} if isinstance(done, str) else {name: as_metrics(one) for name, one in done.counters.items()},
            rebuilds={} if isinstance(rebuilds, str) else rebuilds,
        )

    @classmethod
    def in_folder(cls, delta: DeltaRs, plan: Plan, totals: LocalTotals, only: ResourceRef | None = None) -> Figures:
        """The numbers of an application in a folder. Rows and lags are those of all resources, or of one only."""
        found = cls.of(plan, only, NativePageReads(delta), totals.read, delta.rows)
        return replace(found, lags=lags_in_folder(delta, plan, only))

    @classmethod
    def by_query(cls, system: SystemTables, plan: Plan) -> Figures:
        """The numbers of an application in any warehouse, without counters. Lags are unknown."""
        counted = {table: system.query(table, "SELECT count(*) AS many FROM t") for table in _tables_with_rows(plan)}
        counts = {table: rows[0]["many"] if rows else 0 for table, rows in counted.items()}
        done = totals_by_spark(system.query).resources
        return cls(counts, done, letters_in(system.query), rebuilds=rebuilds_in(plan, system.query))

    def rows(self, table: str | None) -> int | str | None:
        """The number of rows of a Delta table; None if they were not counted, or for no table."""
        return None if table is None else self.counts.get(table)

    def lag(self, ref: ResourceRef) -> int | str | None:
        """The number of rows and records that a resource has yet to read; None if it was not asked for."""
        lags = self.lags.get(ref)
        return sum(lags.values()) if isinstance(lags, Mapping) else lags

    def done_of(self, ref: ResourceRef) -> Mapping[str, Any]:
        """The totals of a resource, with its ``dead_letters``; empty if it has none, or if they cannot be read."""
        done = None if isinstance(self.done, str) else self.done.get(str(ref))
        letters = self.letters_of(str(ref))
        return {} if done is None else {**done, **({} if isinstance(letters, str) else {"dead_letters": letters})}

    def letters_of(self, resource: str) -> int | str:
        """The number of dead letters of a resource, ``kind/name``."""
        return self.letters if isinstance(self.letters, str) else summed_by_resource(self.letters).get(resource, 0)


def lags_in_folder(
    delta: DeltaRs, plan: Plan, only: ResourceRef | None = None
) -> dict[ResourceRef, Mapping[str, int] | str]:
    """The lags of all resources that run, or of one only, see ``Figures.lags``."""
    running = {ref for ref in plan.runs if ref.kind != "task"} - {ref for ref, _ in plan.waiting}
    asked = [ref for ref in running if only in {None, ref}]
    return {ref: readable(f"the lag of {ref}", partial(lags_of, delta, plan, ref)) for ref in asked}


def plan_and_figures(registry: Registry, documents: list[Document]) -> tuple[Plan | None, Figures]:
    """The plan of applied documents as its resources would run now, and its figures. None if all were deleted."""
    applied, system = registry.plan(documents), registry.tables
    if applied is None:
        return None, Figures({}, {}, {})
    plan = as_found(system, applied)
    if isinstance(system, NativeSystemTables):
        return plan, Figures.in_folder(system.delta, plan, LocalTotals(system.delta))
    return plan, Figures.by_query(system, plan)


def _tables_with_rows(plan: Plan, only: ResourceRef | None = None) -> list[str]:
    """The Delta tables that hold the rows of resources, and the records of topics; or those of one only."""
    everything = (*plan.runs, *(one.ref for one in (*plan.tables, *plan.topics)))
    return sorted({table for ref in everything if only in {None, ref} and (table := kept_in(plan, ref))})

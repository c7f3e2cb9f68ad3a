"""The numbers of an application: rows, totals of batches, dead letters and lag. One that cannot be read is a reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kaspr_delta.control.dead_letters import DeadLetters
from kaspr_delta.control.lag import lags_of
from kaspr_delta.control.rebuilds import rebuilds_in
from kaspr_delta.control.registry import Document, Registry
from kaspr_delta.control.resource_status import kept_in
from kaspr_delta.control.source_tables import as_found
from kaspr_delta.control.totals import LocalTotals, totals_by_spark
from kaspr_delta.engine.batch.counters import Metric, as_metrics
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.storage.native.reads import NativePageReads, NativeSystemTables
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
        cls,
        delta: DeltaRs,
        plan: Plan,
        tables: Collection[str] | None = None,
        refs: Collection[ResourceRef] | None = None,
    ) -> Figures:
        """The numbers of an application in a folder; by default of all its tables and resources."""
        reads = NativePageReads(delta)
        running = set(plan.runs) - {ref for ref, _ in plan.waiting}
        asked = {ref for ref in (running if refs is None else running & set(refs)) if ref.kind != "task"}
        totals = readable("the progress of resources", LocalTotals(delta).read)
        rebuilds = readable("the states of resources", partial(rebuilds_in, plan, delta.rows))
        return cls(
            reads.counts(tables_with_rows(plan) if tables is None else tables),
            totals if isinstance(totals, str) else totals.resources,
            readable("the dead letters", DeadLetters(NativeSystemTables(delta), plan).counts),
            {} if isinstance(totals, str) else {name: as_metrics(one) for name, one in totals.counters.items()},
            {ref: readable(f"the lag of {ref}", partial(lags_of, delta, plan, ref)) for ref in asked},
            {} if isinstance(rebuilds, str) else rebuilds,
        )

    @classmethod
    def by_query(cls, system: SystemTables, plan: Plan) -> Figures:
        """The numbers of an application in any warehouse, without counters and letters. Lags are unknown."""
        counted = {table: system.query(table, "SELECT count(*) AS many FROM t") for table in tables_with_rows(plan)}
        counts = {table: rows[0]["many"] if rows else 0 for table, rows in counted.items()}
        done = totals_by_spark(system.query).resources
        return cls(counts, done, {}, rebuilds=rebuilds_in(plan, system.query))

    def rows(self, table: str | None) -> int | str | None:
        """The number of rows of a Delta table; None if they were not counted, or for no table."""
        return None if table is None else self.counts.get(table)

    def lag(self, ref: ResourceRef) -> int | str | None:
        """The number of rows and records that a resource has yet to read; None if it was not asked for."""
        lags = self.lags.get(ref)
        return sum(lags.values()) if isinstance(lags, Mapping) else lags

    def done_of(self, ref: ResourceRef) -> Mapping[str, Any]:
        """The totals of a resource; empty if it has none, or if they cannot be read."""
        return {} if isinstance(self.done, str) else self.done.get(str(ref), {})

    def letters_of(self, resource: str) -> int | str:
        """The number of dead letters of a resource, ``kind/name``."""
        return self.letters if isinstance(self.letters, str) else summed_by_resource(self.letters).get(resource, 0)


def plan_and_figures(registry: Registry, documents: list[Document]) -> tuple[Plan | None, Figures]:
    """The plan of applied documents as its resources would run now, and its figures. None if all were deleted."""
    applied, system = registry.plan(documents), registry.tables
    if applied is None:
        return None, Figures({}, {}, {})
    plan = as_found(system, applied)
    if isinstance(system, NativeSystemTables):
        return plan, Figures.of(system.delta, plan)
    return plan, Figures.by_query(system, plan)


def tables_with_rows(plan: Plan) -> list[str]:
    """The Delta tables that hold the rows of resources, and the records of topics."""
    refs = (*plan.runs, *(one.ref for one in (*plan.tables, *plan.topics)))
    return sorted({kept for ref in refs if (kept := kept_in(plan, ref)) is not None})


def summed_by_resource(letters: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """The numbers of dead letters by ``kind/name``, summed over the sources."""
    counts: dict[str, int] = {}
    for (resource, _), count in letters.items():
        counts[resource] = counts.get(resource, 0) + count
    return counts

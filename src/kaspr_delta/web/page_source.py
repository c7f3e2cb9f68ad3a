"""The data of pages: reads of an application's tables, its numbers, its documents and its dead letters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kaspr_delta.control.dead_letters import DeadLetters
from kaspr_delta.control.lag import lags_of
from kaspr_delta.control.rebuilds import rebuilds_in
from kaspr_delta.control.registry import Document, Registry
from kaspr_delta.control.retry import LocalDeadLetters
from kaspr_delta.control.totals import Totals
from kaspr_delta.engine.batch.counters import Metric
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.page_reads import NativePageReads
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.page_reads import PageReads


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of an application at one moment. Implements Facts.

    ``counts``: rows by Delta table; ``done``: see Facts; ``counters`` by ``kind/name``; ``letters`` by ``kind/name``
    and source; ``lags``: the rows and records still to be read, by resource and source. ``rebuilds``: see
    Facts.
    """

    counts: Mapping[str, int]
    done: Mapping[str, Mapping[str, Any]]
    letters: Mapping[tuple[str, str], int]
    counters: Mapping[str, list[Metric]] = field(default_factory=dict)
    lags: Mapping[ResourceRef, Mapping[str, int]] = field(default_factory=dict)
    rebuilds: Mapping[ResourceRef, str] = field(default_factory=dict)

    def rows(self, table: str) -> int | None:
        """How many rows a Delta table has; None if they were not counted."""
        return self.counts.get(table)

    def lag(self, ref: ResourceRef) -> int | None:
        """How many rows and records a resource has yet to read; None if that is not known."""
        lags = self.lags.get(ref)
        return None if lags is None else sum(lags.values())

    @property
    def letters_by_resource(self) -> dict[str, int]:
        """How many dead letters there are, by ``kind/name``."""
        return summed_by_resource(self.letters)


class PageSource(Protocol):
    """The data of pages, wherever the tables are."""

    @property
    def tables(self) -> PageReads:
        """The reads of Delta tables."""

    def documents(self) -> list[Document]:
        """The applied documents; empty if nothing was applied yet."""

    def letters(self, plan: Plan) -> DeadLetters:
        """The dead letters."""

    def figures(self, plan: Plan, tables: Collection[str], refs: Collection[ResourceRef] | None = None) -> Figures:
        """The numbers of an application: the rows of these tables, and, where known, the lag of these resources.

        Without ``refs`` the lag of all resources and the counters are included.
        """


@dataclass(frozen=True)
class LocalSource:
    """Tables on this machine's disk."""

    delta: DeltaRs

    @property
    def tables(self) -> NativePageReads:
        return NativePageReads(self.delta)

    def documents(self) -> list[Document]:
        return Registry(NativeSystemTables(self.delta)).documents()

    def letters(self, plan: Plan) -> LocalDeadLetters:
        return LocalDeadLetters.of(self.delta, plan)

    def figures(self, plan: Plan, tables: Collection[str], refs: Collection[ResourceRef] | None = None) -> Figures:
        totals = Totals(self.delta)
        running = set(plan.runs) - {ref for ref, _ in plan.waiting}
        asked = running if refs is None else running & set(refs)
        return Figures(
            self.tables.counts(tables),
            totals.resources,
            self.letters(plan).counts(),
            totals.metrics_by_resource,
            {ref: lags_of(self.delta, plan, ref) for ref in asked if ref.kind != "task"},
            rebuilds_in(plan, self.delta.rows),
        )


def summed_by_resource(letters: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """The numbers of dead letters by ``kind/name``, summed over the sources."""
    counts: dict[str, int] = {}
    for (resource, _), count in letters.items():
        counts[resource] = counts.get(resource, 0) + count
    return counts

"""The storage of the web side: tables read by key, topics to append to, and the data of pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

import pyarrow as pa

from kaspr_delta.control.dead_letters import DeadLetters
from kaspr_delta.control.figures import Figures
from kaspr_delta.control.rebuilds import rebuilds_in
from kaspr_delta.control.retry import RetryableDeadLetters
from kaspr_delta.control.source_tables import columns_in_folder
from kaspr_delta.control.totals import LocalTotals, Totals
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef, TablePlan
from kaspr_delta.spec.ddl import Column
from kaspr_delta.storage.layout import TOPIC
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.reads import NativePageReads, NativeSystemTables
from kaspr_delta.storage.page_reads import PageReads
from kaspr_delta.storage.system_tables import SystemTables
from kaspr_delta.web.access import Visitor
from kaspr_delta.web.local_copy import LocalCopy


class Store(Protocol):
    """The tables of one application, and what pages and metrics tell of them, without a Spark session."""

    @property
    def look(self) -> float:
        """Seconds between two looks at the registry."""

    @property
    def system(self) -> SystemTables:
        """The tables whose names start with ``_kaspr``."""

    @property
    def tables(self) -> PageReads:
        """The reads of Delta tables for pages."""

    @property
    def ready(self) -> bool:
        """Whether reads are fast by now for all tables that were asked for."""

    def reader(self, plan: TablePlan) -> Any:
        """The TableReader of a table: of keys, or of cells if it has windows."""

    def has(self, table: str) -> bool:
        """Whether a Delta table exists."""

    def columns(self, table: str) -> tuple[Column, ...] | str:
        """The columns of a foreign table, or why it cannot be read."""

    def append(self, topic: str, records: pa.Table) -> None:
        """Append records to the Delta table of a topic in one commit; the table is made if it does not exist."""

    def done(self) -> Totals:
        """The totals of resources."""

    def rebuilds(self, plan: Plan) -> Mapping[ResourceRef, str]:
        """The resources of a plan that need a rebuild, with the reasons, as far as they are known."""

    def letters(self, plan: Plan) -> DeadLetters:
        """The dead letters."""

    def figures(self, plan: Plan, only: ResourceRef | None = None) -> Figures:
        """The numbers of an application. Rows and, where known, lags are those of all resources, or of one only."""

    def seen_by(self, visitor: Visitor) -> Store:
        """The store with the permissions of a visitor of pages."""

    def close(self) -> None:
        """Release threads and files, if there are any."""


@dataclass
class LocalStore:
    """Tables on this machine's disk. The first read of a table makes a copy, which then follows the table."""

    delta: DeltaRs
    look: float = 0.5
    system: NativeSystemTables = field(init=False)
    tables: PageReads = field(init=False)
    _totals: LocalTotals = field(init=False)
    _copies: dict[Any, LocalCopy] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        self.system = NativeSystemTables(self.delta)
        self.tables = NativePageReads(self.delta)
        self._totals = LocalTotals(self.delta)

    @property
    def ready(self) -> bool:
        return all(copy.ready or not self.has(copy.plan.state) for copy in list(self._copies.values()))

    def reader(self, plan: TablePlan) -> LocalCopy:
        # A new declaration of a table may change its serializers, windows or columns.
        known = plan.state, plan.serializers, plan.window, plan.typed
        with self._lock:
            if known not in self._copies:
                self._copies[known] = LocalCopy(self.delta, plan)
                self._copies[known].follow()
            return self._copies[known]

    def has(self, table: str) -> bool:
        return self.delta.head(table) is not None

    def columns(self, table: str) -> tuple[Column, ...] | str:
        found = columns_in_folder(self.delta, table)
        if found is None and self.delta.has_folder(table):
            return f"'{table}' has features that only Spark reads: a web view cannot show it"
        return found or f"'{table}' is in a catalog, which only Spark reads: name the table's folder in `source`"

    def append(self, topic: str, records: pa.Table) -> None:
        self.delta.ensure(topic, TOPIC)
        self.delta.append(topic, records)

    def done(self) -> Totals:
        return self._totals.read()

    def rebuilds(self, plan: Plan) -> Mapping[ResourceRef, str]:
        return rebuilds_in(plan, self.delta.rows)

    def letters(self, plan: Plan) -> RetryableDeadLetters:
        return RetryableDeadLetters(self.system, plan)

    def figures(self, plan: Plan, only: ResourceRef | None = None) -> Figures:
        return Figures.in_folder(self.delta, plan, self._totals, only)

    def seen_by(self, visitor: Visitor) -> LocalStore:  # noqa: ARG002  all are the user of the server
        return self

    def close(self) -> None:
        for copy in self._copies.values():
            copy.close()

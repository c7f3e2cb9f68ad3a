"""The data of pages: reads of an application's tables, its numbers, its documents and its dead letters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from kaspr_delta.control.dead_letters import DeadLetters
from kaspr_delta.control.figures import Figures
from kaspr_delta.control.retry import LocalDeadLetters
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.page_reads import NativePageReads
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.page_reads import PageReads
from kaspr_delta.storage.system_tables import SystemTables


class PageSource(Protocol):
    """The data of pages, wherever the tables are."""

    @property
    def tables(self) -> PageReads:
        """The reads of Delta tables."""

    @property
    def system(self) -> SystemTables:
        """The tables whose names start with ``_kaspr``."""

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

    @property
    def system(self) -> NativeSystemTables:
        return NativeSystemTables(self.delta)

    def letters(self, plan: Plan) -> LocalDeadLetters:
        return LocalDeadLetters.of(self.delta, plan)

    def figures(self, plan: Plan, tables: Collection[str], refs: Collection[ResourceRef] | None = None) -> Figures:
        return Figures.of(self.delta, plan, tables, refs)

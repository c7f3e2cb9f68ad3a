"""An application for Python, commands and the web side: its progress, dead letters and figures.

Over a folder it needs no session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kaspr_delta.control.dead_letters import DeadLetters
from kaspr_delta.control.figures import Figures
from kaspr_delta.control.rebuilds import rebuilds_in
from kaspr_delta.control.retry import RetryableDeadLetters
from kaspr_delta.control.totals import LocalTotals, Totals, totals_by_spark
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.system_tables import RetryTables, SystemTables


class Store(Protocol):
    """The state of one application by its tables."""

    @property
    def system(self) -> SystemTables:
        """The tables whose names start with ``_kaspr``."""

    def done(self) -> Totals:
        """The totals of resources."""

    def rebuilds(self, plan: Plan) -> Mapping[ResourceRef, str]:
        """The resources of a plan that need a rebuild, with the reasons, as far as they are known."""

    def letters(self, plan: Plan) -> DeadLetters:
        """The dead letters."""

    def figures(self, plan: Plan, only: ResourceRef | None = None) -> Figures:
        """The numbers of an application. Rows and, where known, lags are those of all resources, or of one only."""


class ByStatements:
    """The answers of statements on system tables, wherever these are."""

    system: SystemTables

    def done(self) -> Totals:
        return totals_by_spark(self.system.query)

    def rebuilds(self, plan: Plan) -> Mapping[ResourceRef, str]:
        return rebuilds_in(plan, self.system.query)


@dataclass
class FolderStore(ByStatements):
    """Implements Store for the tables of an application in a folder, here or in a bucket."""

    delta: DeltaRs
    system: NativeSystemTables = field(init=False)
    _totals: LocalTotals = field(init=False)

    def __post_init__(self) -> None:
        self.system = NativeSystemTables(self.delta)
        self._totals = LocalTotals(self.delta)

    def done(self) -> Totals:
        return self._totals.read()

    def letters(self, plan: Plan) -> RetryableDeadLetters:
        return RetryableDeadLetters(self.system, plan)

    def figures(self, plan: Plan, only: ResourceRef | None = None) -> Figures:
        return Figures.in_folder(self.delta, plan, self._totals, only)


@dataclass(frozen=True)
class SessionStore(ByStatements):
    """The same in a catalog, by a session. Lags are not known."""

    system: RetryTables

    def letters(self, plan: Plan) -> RetryableDeadLetters:
        return RetryableDeadLetters(self.system, plan)

    def figures(self, plan: Plan, only: ResourceRef | None = None) -> Figures:  # noqa: ARG002
        return Figures.by_query(self.system, plan)


def application_store(system: RetryTables) -> FolderStore | SessionStore:
    """The store to which system tables belong."""
    return FolderStore(system.delta) if isinstance(system, NativeSystemTables) else SessionStore(system)

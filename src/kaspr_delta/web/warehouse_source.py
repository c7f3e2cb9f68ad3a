"""The data of pages over Unity Catalog: statements on a SQL warehouse, executed as the server or as the visitor."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kaspr_delta.control.dead_letters import DeadLetters
from kaspr_delta.control.figures import Figures, summed_by_resource
from kaspr_delta.control.totals import counters_by_resource, sums_by_resource, with_letters
from kaspr_delta.engine.batch.counters import as_metrics
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.storage.warehouse.page_reads import WarehousePageReads
from kaspr_delta.storage.warehouse.sql_warehouse import SqlWarehouse, WarehouseSystemTables
from kaspr_delta.web.visitor import Visitor

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient


_PROGRESS_READ = "the progress of resources"


@dataclass(frozen=True, slots=True)
class WarehouseSource:
    """Tables in Unity Catalog. Implements PageSource; lags are not known."""

    warehouse: SqlWarehouse

    @property
    def tables(self) -> WarehousePageReads:
        return WarehousePageReads(self.warehouse)

    @property
    def system(self) -> WarehouseSystemTables:
        return WarehouseSystemTables(self.warehouse)

    def letters(self, plan: Plan) -> DeadLetters:
        return DeadLetters(self.tables, plan)

    def figures(self, plan: Plan, tables: Collection[str], refs: Collection[ResourceRef] | None = None) -> Figures:
        query = self.system.query
        with ThreadPoolExecutor() as at_once:
            counting = at_once.submit(self.tables.counts, tables)
            adding = at_once.submit(readable, _PROGRESS_READ, partial(sums_by_resource, query))
            failed = at_once.submit(readable, "the dead letters", self.letters(plan).counts)
            counted = readable(_PROGRESS_READ, partial(counters_by_resource, query)) if refs is None else {}
        letters, sums = failed.result(), adding.result()
        now = {} if isinstance(letters, str) else summed_by_resource(letters)
        done = sums if isinstance(sums, str) else with_letters(sums, now)
        counters = {} if isinstance(counted, str) else counted
        metrics = {name: as_metrics(counts) for name, counts in counters.items()}
        return Figures(counting.result(), done, letters, metrics)


@dataclass(frozen=True, slots=True)
class WarehouseSources:
    """Returns a source for each visitor. For a visitor's token ``client_of`` makes a client with their permissions.

    The client is not kept after the answer.
    """

    warehouse: SqlWarehouse
    client_of: Callable[[str], WorkspaceClient] | None = None

    def __call__(self, visitor: Visitor) -> WarehouseSource:
        if self.client_of is None or not visitor.token:
            return WarehouseSource(self.warehouse)
        return WarehouseSource(replace(self.warehouse, client=self.client_of(visitor.token)))


def client_of_visitor(host: str) -> Callable[[str], WorkspaceClient]:
    """A function that makes a workspace client for a visitor's token, whatever credentials the environment has."""
    from databricks.sdk import WorkspaceClient

    return lambda token: WorkspaceClient(host=host, token=token, auth_type="pat")

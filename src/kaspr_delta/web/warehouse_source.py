"""The data of pages over Unity Catalog: statements on a SQL warehouse, executed as the server or as the visitor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kaspr_delta.control.dead_letters import DeadLetters
from kaspr_delta.control.figures import Figures, summed_by_resource
from kaspr_delta.control.registry import Document, Registry
from kaspr_delta.engine.batch.counters import as_metrics
from kaspr_delta.engine.streams.event import moment_of
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.layout import OF_RESOURCES, PROGRESS
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.storage.warehouse.page_reads import MOST_ROWS, WarehousePageReads
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

    def documents(self) -> list[Document]:
        return Registry(WarehouseSystemTables(self.warehouse)).documents()

    def as_found(self, plan: Plan) -> Plan:
        return plan

    def letters(self, plan: Plan) -> DeadLetters:
        return DeadLetters(self.tables, plan)

    def figures(self, plan: Plan, tables: Collection[str], refs: Collection[ResourceRef] | None = None) -> Figures:
        with ThreadPoolExecutor() as at_once:
            counting = at_once.submit(self.tables.counts, tables)
            adding = at_once.submit(readable, _PROGRESS_READ, partial(sums_by_resource, self.warehouse))
            failed = at_once.submit(readable, "the dead letters", self.letters(plan).counts)
            counted = readable(_PROGRESS_READ, partial(counters_by_resource, self.warehouse)) if refs is None else {}
        letters, sums = failed.result(), adding.result()
        now = {} if isinstance(letters, str) else summed_by_resource(letters)
        done = (
            sums
            if isinstance(sums, str)
            else {name: {**one, "dead_letters": now.get(name, 0)} for name, one in sums.items()}
        )
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


def sums_by_resource(warehouse: SqlWarehouse) -> dict[str, dict[str, Any]]:
    """The sums of batches by ``kind/name``: rows_in, rows_out, failures and last_batch."""
    found = warehouse.rows_if_there(
        "SELECT resource, sum(rows_in), sum(rows_out), sum(dead_letters), unix_micros(max(at))"  # noqa: S608
        f" FROM {warehouse.identifier(PROGRESS)} WHERE {OF_RESOURCES} GROUP BY resource LIMIT {MOST_ROWS}"
    )
    return {
        str(name): {
            "rows_in": int(rows_in or 0),
            "rows_out": int(rows_out or 0),
            "failures": int(failures or 0),
            "last_batch": moment_of(int(at or 0)),
        }
        for name, rows_in, rows_out, failures, at in found
    }


def counters_by_resource(warehouse: SqlWarehouse) -> dict[str, Counter[str]]:
    """The sums of the batches' counters by ``kind/name``."""
    found = warehouse.rows_if_there(
        "SELECT resource, counter, sum(times)"  # noqa: S608
        " FROM (SELECT resource, explode(from_json(counts, 'MAP<STRING, BIGINT>')) AS (counter, times)"
        f" FROM {warehouse.identifier(PROGRESS)} WHERE {OF_RESOURCES}) GROUP BY resource, counter LIMIT {MOST_ROWS}"
    )
    counters: dict[str, Counter[str]] = {}
    for resource, counter, times in found:
        counters.setdefault(str(resource), Counter())[str(counter)] = int(times or 0)
    return counters

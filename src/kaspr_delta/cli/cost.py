"""``kaspr-delta plan --cost``: what a deployment does in a day, in numbers, and the queries that measure its DBU."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer
from pydantic.alias_generators import to_camel
from rich.table import Table

from kaspr_delta.cli.bundle import BundleOptions
from kaspr_delta.cli.progress import results, table_of
from kaspr_delta.cli.target import Target
from kaspr_delta.control.daily import DailyWork
from kaspr_delta.errors import UsageError
from kaspr_delta.jobs import Deployment, Storage
from kaspr_delta.jobs.cost import (
    BATCH_STATEMENTS,
    COMPARED_STATEMENTS,
    ENDPOINT_STATEMENTS,
    IDLE_STATEMENTS,
    INTERNAL_STATEMENTS,
    MOST_SOURCE_STATEMENTS,
    DailyCost,
    Span,
    daily_costs,
)
from kaspr_delta.jobs.usage import statements_query, usage_query
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.settings import SQL_WAREHOUSE_VARIABLE
from kaspr_delta.spec.durations import duration_text, milliseconds
from kaspr_delta.storage.layout import FEED_RETENTION_DAYS
from kaspr_delta.storage.namespace import FolderNamespace, Namespace, Warehouse
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.page_reads import NativePageReads
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.storage.page_reads import PageReads
from kaspr_delta.storage.warehouse.reads import WarehousePageReads, WarehouseSystemTables
from kaspr_delta.storage.warehouse.sql_warehouse import SqlWarehouse
from kaspr_delta.workspace import Workspace

if TYPE_CHECKING:
    from kaspr_delta.cli.plan import PlanOutput


@dataclass(frozen=True, slots=True)
class Cost:
    """The daily cost of an application in a deployment. ``work`` is that of its last days, or why it is unknown."""

    plan: Plan
    deployment: Deployment
    layouts: tuple[DailyCost, ...]
    work: DailyWork | str

    @classmethod
    def of(cls, plan: Plan, deployment: Deployment, warehouse: Warehouse, profile: str | None) -> Cost:
        """The cost by the jobs of the deployment, and by the batches in a warehouse."""
        work = readable("the last batches", lambda: DailyWork.of(_reads(plan, deployment, warehouse, profile)))
        return cls(plan, deployment, daily_costs(plan, deployment), work or "no batch has run yet")

    @property
    def of_batches(self) -> float:
        """The most statements of a day's batches, in every layout."""
        batches = {} if isinstance(self.work, str) else self.work.resources
        return BATCH_STATEMENTS * sum(one.batches for one in batches.values())

    @property
    def queries(self) -> dict[str, str]:
        """Queries over Databricks' system tables, by what they measure."""
        of = (self.plan, self.deployment)
        return {"dbu": usage_query(*of), "statements": statements_query(*of)}

    @property
    def plain(self) -> dict[str, Any]:
        """The cost as JSON data."""
        if isinstance(self.work, str):
            work: dict[str, Any] = {"unknown": self.work}
        else:
            work = {**_camel(asdict(self.work)), "statements": self.of_batches}
        wanted = self.deployment
        return {
            "deployment": {
                **{name: getattr(wanted, name) for name in ("target", "mode", "trigger", "every")},
                "compute": "serverless" if wanted.serverless else "cluster",
            },
            "layouts": [_camel(asdict(one)) for one in self.layouts],
            "work": work,
            "queries": self.queries,
        }


def _reads(plan: Plan, deployment: Deployment, warehouse: Warehouse, profile: str | None) -> PageReads:
    """The reads of a warehouse, without Spark. Raises UsageError and SetupError."""
    namespace = warehouse.namespace(plan.schema)
    if isinstance(namespace, FolderNamespace):
        return NativePageReads(DeltaRs(namespace))
    return WarehousePageReads(_sql_warehouse(deployment, namespace, profile))


def sql_warehouse_id(deployment: Deployment) -> str:
    """The SQL warehouse through which a deployment is read: its own, or that of the environment; empty: none."""
    return deployment.sql_warehouse or os.environ.get(SQL_WAREHOUSE_VARIABLE, "")


def _sql_warehouse(deployment: Deployment, namespace: Namespace, profile: str | None) -> SqlWarehouse:
    sql_warehouse = sql_warehouse_id(deployment)
    if not sql_warehouse:
        raise UsageError(f"{namespace.schema} is read through a SQL warehouse: name one with --var sql_warehouse=ID")
    return SqlWarehouse(Workspace.of_target(deployment.target, profile).client, sql_warehouse, namespace)


def deployed_tables(plan: Plan, deployment: Deployment, profile: str | None) -> WarehouseSystemTables:
    """The tables of a deployment, through its SQL warehouse. Raises UsageError and SetupError."""
    namespace = Warehouse(Storage.of(plan, deployment).warehouse).namespace(plan.schema)
    return WarehouseSystemTables(_sql_warehouse(deployment, namespace, profile))


def print_costs(
    target: Target, plans: Iterable[Plan], output: PlanOutput | None, options: BundleOptions, deployment: Deployment
) -> None:
    """Print the costs of applications: with a target of the bundle by its deployment, else by the warehouse."""
    if output == "mermaid":
        raise UsageError("--cost is shown as table, text or json")
    costs = []
    for plan in plans:
        deployed = options.target is not None
        warehouse = Warehouse(Storage.of(plan, deployment).warehouse) if deployed else target.location
        costs.append(Cost.of(plan, deployment, warehouse, options.profile))
    if output == "json":
        found = [{"application": cost.plan.application, **cost.plain} for cost in costs]
        typer.echo(json.dumps({"applications": found}, indent=2, ensure_ascii=False, default=str))
    else:
        for cost in costs:
            print_cost(cost)


def print_cost(cost: Cost) -> None:
    """Tables of the cost, what they count, and the queries."""
    screen, wanted = results(), cost.deployment
    compute = f"serverless ({wanted.performance_target})" if wanted.serverless else "cluster"
    how = f"every={wanted.every}" if wanted.mode == "continuous" else f"trigger={wanted.trigger}"
    typer.echo(f"{cost.plan.application} in {wanted.target}, a day: mode={wanted.mode}, {how}, compute={compute}\n")
    screen.print(_layouts(cost))
    typer.echo("\n" + "\n".join(_assumptions(cost)))
    if isinstance(cost.work, str):
        typer.echo(f"\nBatches, bytes: {cost.work}.")
    else:
        typer.echo(f"\nBatches a day, from {cost.work.first} to {cost.work.last}:\n")
        screen.print(_batches(cost.work))
        added, removed = _size(cost.work.bytes_added), _size(cost.work.bytes_removed)
        kept = duration_text(cost.plan.feed_retention or milliseconds(f"{FEED_RETENTION_DAYS}d"))
        typer.echo(
            f"\nStatements a day, beside the idle ones: up to {_number(cost.of_batches)}, if batches are small."
            f"\nFiles written a day: {added}. Files removed from tables: {removed}."
            f"\nRemoved files stay until VACUUM, and where a table has a change feed for at least {kept}."
        )
    for measured, query in cost.queries.items():
        typer.echo(f"\n-- {_MEASURED[measured]}\n{query};")


_MEASURED = {
    "dbu": "DBU of its jobs by day. It needs the system schemas billing and lakeflow.",
    "statements": "Statements and bytes of its serverless jobs by day. It needs the system schemas query and lakeflow.",
}


def _layouts(cost: Cost) -> Table:
    table = table_of(("layout",), ("jobs", "tasks", "never end", "runs", "starts", "idle statements"))
    for one in cost.layouts:
        name = f"{one.layout} (deployed)" if one.is_deployed else one.layout
        counted = map(str, (one.jobs, one.tasks, one.endless))
        table.add_row(name, *counted, *map(_span, (one.runs, one.starts, one.statements)))
    return table


def _assumptions(cost: Cost) -> Iterator[str]:
    """Sentences about what is counted."""
    serverless, every = cost.deployment.serverless, cost.deployment.every
    started = "a task, on serverless compute" if serverless else "the cluster of a run, which its tasks share"
    yield f"A start of compute: {started}."
    if any(one.endless < one.jobs for one in cost.layouts):
        tables = f"1 a table that it follows, {MOST_SOURCE_STATEMENTS} at most"
        more = f"{INTERNAL_STATEMENTS} with internal_suffix, {COMPARED_STATEMENTS} with onChange: side-by-side"
        yield f"Idle statements of a task that finds nothing new: {IDLE_STATEMENTS}, {tables}, {more},"
        yield f"{ENDPOINT_STATEMENTS} with topics that are bound as inputs, and {ENDPOINT_STATEMENTS} for each of them."
    if any(one.endless for one in cost.layouts):
        yield "A job that never ends has its compute all day. It starts after deployments and failures only."
        yield "Beside it the job for operations looks for unhealthy resources, unless waiting is note."
        yield f"Its idle statements: one for each table that has no news, every {every}."
    if any(one.runs.least != one.runs.most for one in cost.layouts):
        yield "Runs: updates of tables start them, up to one a minute, and so does the clock."
    yield "Not counted: retries, runs that people start, the App, the SQL warehouse; reads of old rows (retention),"
    yield "which are 2 a table at most in a run with news, and in one without after a tenth of the shortest retention;"
    yield "batches that windows by the clock make each time they move."


def _batches(work: DailyWork) -> Table:
    table = table_of(("resource",), ("batches", "rows in", "rows out", "seconds"))
    for name, one in work.resources.items():
        table.add_row(name, *map(_number, (one.batches, one.rows_in, one.rows_out, one.seconds)))
    return table


def _span(span: Span) -> str:
    if span.least == span.most:
        return _number(span.most)
    return f"{_number(span.least)} to {_number(span.most)}" if span.least else f"up to {_number(span.most)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.2g}"  # noqa: PLR2004  two digits


def _size(number: float) -> str:
    """Bytes in decimal units.

    >>> _size(999), _size(1_234_567)
    ('999 B', '1.2 MB')
    """
    units = ["B", "kB", "MB", "GB", "TB"]
    while number >= 1_000 and len(units) > 1:  # noqa: PLR2004
        number, units = number / 1_000, units[1:]
    return f"{number:.0f} B" if units[0] == "B" else f"{number:.1f} {units[0]}"


def _camel(values: dict[str, Any]) -> dict[str, Any]:
    """Fields in camelCase, as in manifests; resources keep their names."""
    return {
        name if "/" in name else to_camel(name): _camel(value) if isinstance(value, dict) else value
        for name, value in values.items()
    }

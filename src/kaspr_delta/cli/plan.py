"""``kaspr-delta plan``: show the resources that would run, from the plan that the engine reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from kaspr_delta.cli.bundle import BundleOptions, VarOption
from kaspr_delta.cli.deployed import ProfileOption, TargetOption
from kaspr_delta.cli.progress import note, results
from kaspr_delta.cli.target import Target
from kaspr_delta.cli.validate import print_findings
from kaspr_delta.errors import UsageError
from kaspr_delta.plan.builder.build import build_plans, named
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.definition.waiting import what_for
from kaspr_delta.plan.explain.explain import as_json, as_text
from kaspr_delta.plan.explain.flows import flows
from kaspr_delta.plan.explain.mermaid import as_mermaid
from kaspr_delta.spec.diagnostics import Severity, has_errors
from kaspr_delta.spec.loader import LoadedManifests
from kaspr_delta.spec.values import written

if TYPE_CHECKING:
    from kaspr_delta.jobs import Deployment

PlanOutput = Literal["table", "text", "json", "mermaid"]
"""The forms in which a plan is shown."""


def plan(
    target: Target,
    path: Annotated[Path, typer.Argument(help="A manifest, or a folder of manifests.")],
    output: Annotated[
        PlanOutput | None,
        typer.Option(
            "--output",
            "-o",
            help="Tables (on a terminal), an outline (elsewhere), the whole plan as JSON, or a Mermaid flowchart.",
        ),
    ] = None,
    cost: Annotated[bool, typer.Option("--cost", help="What it does in a day as Databricks jobs.")] = False,
    deployed: TargetOption = None,
    profile: ProfileOption = None,
    var: VarOption = None,
) -> None:
    """Show what `run` would run: tables, joins, agents and tasks, in which order, and what waits for something.

    With --app only that application is shown. If an older version wrote the warehouse, a folder, the states that the
    next run migrates are listed. With --target these are those of a deployment, before this version is deployed: they
    are read through its variable `sql_warehouse`, and the manifests have the values that its variable `values` names.
    With an error in the manifests there is no plan: the findings are printed and the exit code is 1. The values of
    ${NAME} in the manifests are listed.

    With --cost it shows instead what the Databricks jobs of the application do in a day, for each layout: runs, starts
    of compute and statements; batches, rows and bytes as on the last days; and the queries that measure its DBU. --var
    gives variables of the bundle. With --target these are those of a target, and the batches those of its deployment;
    otherwise they are those of --warehouse.

    For example:

        kaspr-delta plan bundles/order-system
        kaspr-delta plan bundles/order-system -o mermaid > order-system.mmd
        kaspr-delta plan bundles/order-system --cost --var layout=group
        kaspr-delta plan bundles/order-system --cost --target prod
        kaspr-delta plan bundles/order-system --target prod --var sql_warehouse=ID
    """
    if not (cost or deployed) and (profile or var):
        raise UsageError("--profile and --var are for --cost and --target")
    options = BundleOptions(path, deployed, profile, tuple(var or ()))
    deployment = options.deployment() if cost or deployed else None
    loaded = target.load(path) if deployed is None or deployment is None else _as_deployed(target, deployment)
    plans, findings = build_plans(loaded)
    if has_errors(findings):
        print_findings(findings, to_stderr=True)
        raise typer.Exit(1)
    plans = named(plans, target.app)
    if cost and deployment is not None:
        from kaspr_delta.cli.cost import print_costs

        print_costs(target, plans, output, options, deployment)
        return
    screen = results()
    shown = output or ("table" if screen.is_terminal else "text")
    migrations = [] if shown == "mermaid" else _migrations(target, plans, deployment, profile)
    match shown:
        case "table":
            for plan in plans:
                screen.print(as_table(plan), markup=False)
            _print_values(loaded)
            _print_warnings(plans, migrations)
        case "text":
            typer.echo("\n\n".join(as_text(plan) for plan in plans) or "no application")
            _print_values(loaded)
            _print_warnings(plans, migrations)
        case "json":
            found = [as_json(plan) | {"migrations": of} for plan, of in zip(plans, migrations, strict=True)]
            typer.echo(json.dumps({"applications": found, "values": dict(loaded.values)}, indent=2, ensure_ascii=False))
        case "mermaid":
            typer.echo(as_mermaid(plans))


def _as_deployed(target: Target, deployment: Deployment) -> LoadedManifests:
    """The manifests as the tasks of a deployment read them. Raises UsageError for other values."""
    from kaspr_delta.jobs import manifests_of

    if target.files or target.settings:
        raise UsageError("--values and --set are not for --target, which has the values of its variable 'values'")
    return manifests_of(deployment, Path())


def _print_values(loaded: LoadedManifests) -> None:
    """Print the values of the parameters in the manifests."""
    if loaded.values:
        typer.echo("\nvalues")
        for name, value in sorted(loaded.values.items()):
            typer.echo(f"  {name}: {written(value)}")


def _print_warnings(plans: tuple[Plan, ...], migrations: Sequence[Mapping[str, str]]) -> None:
    """Print why resources wait or may not run as meant, and what the next run migrates; notes are for `validate`."""
    found = dict.fromkeys(finding for plan in plans for finding in plan.findings if finding.severity > Severity.NOTE)
    migrated = (f"{ref}: {text}" for one in migrations for ref, text in one.items())
    for number, line in enumerate([*map(str, found), *migrated]):
        typer.echo(line if number else f"\n{line}")


def _migrations(
    target: Target, plans: tuple[Plan, ...], deployment: Deployment | None, profile: str | None
) -> list[dict[str, str]]:
    """By plan the states of another format, by resource (see ``migrations_in``), in a folder or in a deployment."""
    from kaspr_delta.control.rebuilds import migrations_in
    from kaspr_delta.storage.opening import folder_tables

    made: list[dict[str, str]] = []
    if target.location.is_unity and deployment is None:
        note("whether states have to be migrated is not known here: with --target it is")
    for plan in plans:
        found: Mapping[ResourceRef, str] = {}
        if deployment is not None:
            from kaspr_delta.cli.cost import deployed_tables, sql_warehouse_id

            if sql_warehouse_id(deployment):
                found = migrations_in(plan, deployed_tables(plan, deployment, profile).query)
            else:
                note("whether states have to be migrated is not known: --var sql_warehouse=ID names one that looks")
        elif not target.location.is_unity:
            tables = folder_tables(target.location.namespace(plan.schema))
            if tables is not None:
                found = migrations_in(plan, tables.rows)
        made.append({str(ref): text for ref, text in found.items()})
    return made


def as_table(plan: Plan) -> Group:
    """The resources that run, one row each; below them the tables and the resources that wait."""
    parts: list[Text | Table] = [Text(f"application {plan.application}", "bold"), Text(), _running(plan)]
    if plan.tables:
        parts += [Text(), _tables(plan)]
    if plan.waiting:
        parts += [Text(), _waiting(plan)]
    return Group(*parts)


def _running(plan: Plan) -> Table:
    table = _table("stage", "resource", "reads", "writes")
    waiting = {ref for ref, _ in plan.waiting}
    for number, stage in enumerate(plan.stages, 1):
        for index, ref in enumerate(ref for ref in stage.resources if ref not in waiting):
            shown = f"{number}{' (loop)' if stage.loop else ''}" if index == 0 else ""
            table.add_row(shown, str(ref), *map(", ".join, flows(plan, ref)))
    for task in plan.tasks:
        if task.ref not in waiting:
            table.add_row("clock", str(task.ref), *map(", ".join, flows(plan, task.ref)))
    return table


def _tables(plan: Plan) -> Table:
    table = _table("table", "keys", "values", "changelog")
    for one in plan.tables:
        windows = " (in windows)" if one.window else ""
        table.add_row(f"{one.name}{windows}", one.serializers.key, one.serializers.value, one.changelog)
    return table


def _waiting(plan: Plan) -> Table:
    table = _table("waits", "for")
    for ref, reason in plan.waiting:
        table.add_row(Text(str(ref), "yellow"), what_for(reason))
    return table


def _table(*headings: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")  # a name is never cut
    return table

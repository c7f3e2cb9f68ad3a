"""``kaspr-delta status``: the status of each resource, and the counters of tables and topics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from kaspr_delta.cli.deployed import ProfileOption, RunsOption, TargetOption, jobs_as_json, show_jobs
from kaspr_delta.cli.progress import results, table_of
from kaspr_delta.cli.target import Target
from kaspr_delta.errors import ResourceFailedError, UsageError
from kaspr_delta.serde.json_lines import json_line
from kaspr_delta.spec.durations import interval

if TYPE_CHECKING:
    from kaspr_delta.runtime.report import Status


StatusOutput = Literal["text", "wide", "json"]
"""The forms in which a status is shown."""


def status(
    target: Target,
    output: Annotated[
        StatusOutput, typer.Option("--output", "-o", help="Tables, more of them, or one JSON object.")
    ] = "text",
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="Exit with 1 if a resource is unhealthy; its reason is on standard error."),
    ] = False,
    grace: Annotated[str, typer.Option(help="With --exit-code: for how long a resource may wait.")] = "1h",
    within: Annotated[
        str, typer.Option(help="With --exit-code: the time in which not all events may become dead letters.")
    ] = "1h",
    deployed: TargetOption = None,
    profile: ProfileOption = None,
    runs: RunsOption = 3,
) -> None:
    """Show the rows that every resource has processed since its first run, and the time of its last batch.

    Dead letters are the present ones: a retry removes them. With -o json `failures` counts all, also removed ones.

    Below stand Kaspr's counters: how often functions read, wrote and deleted keys of which table, and how many records
    came from and went to which topic. Only what was committed is counted.

    With -o wide it also shows the cost of the last batch of each resource: rows read and emitted; rows that its MERGEs
    changed, rows they copied with them, and files they rewrote; and the seconds of each step. If many rows are copied
    for few that change, a table has large files. If delta-rs failed at an operation and Spark did it instead, the table
    and the cause stand below: the answers are right, but the operation was slower.

    With --exit-code it fails while a resource is unhealthy: it has waited for longer than --grace, needs a rebuild, or
    failed in the last day and has had no batch since; or all events that it got --within that time became dead letters.
    By a clock it watches a run that never ends, which has no exit code.

    With --target it shows the status of the jobs that were deployed to that target of the bundle: their triggers, their
    last runs, and why the newest run failed.

    For example:

        kaspr-delta status
        kaspr-delta status -o wide
        kaspr-delta status -o json
        kaspr-delta status --exit-code --grace 30m
        kaspr-delta status --target prod
    """
    longest, recent = (timedelta(milliseconds=interval(*one)) for one in (("--grace", grace), ("--within", within)))
    if deployed is not None:
        if exit_code:
            raise UsageError("--exit-code is for a warehouse: beside --target the job for operations has it")
        from kaspr_delta.workspace import Workspace

        jobs = Workspace.of_target(deployed, profile).jobs(deployed, target.app, runs=runs)
        if output == "json":
            typer.echo(json_line(jobs_as_json(jobs)))
        else:
            show_jobs(jobs)
        return
    application = target.open()
    found = application.status()
    if output == "json":
        typer.echo(json_line(found.plain))
    else:
        _show(found, output)
    unhealthy = application.unhealthy(longest, recent) if exit_code else {}
    if unhealthy:
        raise ResourceFailedError("\n".join(f"{name} {reason}" for name, reason in unhealthy.items()))


def _show(found: Status, output: StatusOutput) -> None:
    screen = results()
    for table in _tables(found):
        screen.print(table)
    if output == "wide":
        screen.print(Table.grid())
        screen.print(last_batches(found))
        if found.native_failures:
            screen.print(Table.grid())
            screen.print(failures_of_delta_rs(found))


def _tables(found: Status) -> Sequence[Table]:
    resources = table_of(("resource", "state"), ("rows in", "rows out", "dead letters", "last batch (UTC)"))
    for one in found.resources:
        last = "" if one.last_batch is None else f"{one.last_batch.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S}"
        letters = f"[red]{one.dead_letters}[/red]" if one.dead_letters else "0"
        resources.add_row(str(one.resource), one.state, str(one.rows_in), str(one.rows_out), letters, last)
    if not found.metrics:
        return [resources]
    counters = table_of(("counter", "of"), ("value",))
    for metric in found.metrics:
        counters.add_row(metric.name, ", ".join(metric.labels.values()), str(metric.value))
    return [resources, Table.grid(), counters]


def last_batches(found: Status) -> Table:
    """The cost of each resource's last batch, step by step."""
    from kaspr_delta.runtime.report import STEPS

    merges = ("rows merged", "rows copied", "files rewritten")
    steps = tuple(f"{step} (s)" for step in STEPS)
    table = table_of(("last batch of",), ("rows in", "rows out", *merges, *steps, "all (s)"))
    for one in found.resources:
        if one.last is not None:
            last = one.last
            numbers = (last.merged, last.copied, last.rewritten)
            shown = ("" if n is None else str(n) for n in numbers)
            seconds = (f"{last.steps[step]:.1f}" if step in last.steps else "" for step in STEPS)
            table.add_row(
                str(one.resource), str(last.rows_in), str(last.rows_out), *shown, *seconds, f"{last.seconds:.1f}"
            )
    return table


def failures_of_delta_rs(found: Status) -> Table:
    """Operations that delta-rs failed to do and Spark did instead, by table and cause."""
    table = table_of(("delta-rs failed at", "of table", "with"), ("times",))
    for failure, times in found.native_failures.items():
        table.add_row(failure.operation, failure.table, failure.cause, str(times))
    return table

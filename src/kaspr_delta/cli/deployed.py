"""``kaspr-delta logs`` and ``status --target``: deployed jobs. They start no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kaspr_delta.cli.options import AppOption
from kaspr_delta.cli.progress import note, results, table_of
from kaspr_delta.cli.target import Target
from kaspr_delta.errors import NotFoundError

if TYPE_CHECKING:
    from kaspr_delta.workspace import DeployedJob, Run, TaskRun, Workspace


TargetOption = Annotated[str | None, typer.Option("--target", metavar="TARGET", help="A target of the bundle.")]
ProfileOption = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="A profile of ~/.databrickscfg; else the environment's.")
]
RunsOption = Annotated[int, typer.Option("--runs", min=1, help="With --target: how many runs of each job.")]
_COLOURS = {"SUCCESS": "green", "RUNNING": "cyan"}


def jobs_as_json(jobs: tuple[DeployedJob, ...]) -> dict[str, Any]:
    """The jobs and their runs as plain data, tasks without their ids."""
    shown = {"jobs": [asdict(job) for job in jobs]}
    for task in (task for job in shown["jobs"] for run in job["runs"] for task in run["tasks"]):
        del task["id"]
    return shown


def show_jobs(jobs: tuple[DeployedJob, ...]) -> None:
    """The jobs as a table; below it what stopped those that failed."""
    table = table_of(("job", "starts", "last runs (UTC)", "took", "trigger", "state"))
    for job in jobs:
        shown = [(job.name, job.starts), *[("", "")] * len(job.runs)]
        for (name, starts), run in zip(shown, job.runs, strict=False):
            table.add_row(name, starts, _started(run), _took(run), run.trigger.lower(), _state(run))
        if not job.runs:
            table.add_row(job.name, job.starts, "never", "", "", "")
    screen = results()
    screen.print(table)
    for line in _failures(jobs):
        screen.print(line, markup=False, soft_wrap=True)


def logs(
    context: typer.Context,
    resource: Annotated[
        str | None, typer.Argument(metavar="KIND/NAME", help="Only of the tasks that run this resource.")
    ] = None,
    target: Annotated[str, typer.Option("--target", metavar="TARGET", help="A target of the bundle.")] = "dev",
    profile: ProfileOption = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="How many runs of each job, newest first.")] = 1,
    app: AppOption = None,  # noqa: ARG001  Target.of reads it
) -> None:
    """Print what the newest runs of deployed jobs wrote, and what stopped those that failed.

    For example:

        kaspr-delta logs join/orders-products-join --target prod
    """
    from kaspr_delta.workspace import Workspace

    workspace = Workspace.of_target(target, profile)
    jobs = workspace.jobs(target, Target.of(context).app, runs=runs)
    attempts = [(job, run, task) for job in jobs for run in job.runs for task in run.tasks]
    if resource is not None:
        known = {name for _, _, task in attempts for name in task.resources}
        attempts = [one for one in attempts if one[2].everything or resource in one[2].resources]
        if not attempts:
            raise NotFoundError.among("resource in these runs", resource, known)
    if not attempts:
        note("no job has run yet")
    for job, run, task in attempts:
        typer.echo(f"== {job.name}, {_started(run)}: {task.key} {task.state}")
        for line in written(workspace, task):
            typer.echo(line)


def written(workspace: Workspace, task: TaskRun) -> Iterator[str]:
    """Lines: what a task wrote, and what stopped it if it failed."""
    output = workspace.output(task)
    if output.text:
        yield output.text.rstrip("\n")
        if output.truncated:
            yield "… (Databricks keeps no more of it; the run's page has the driver's log)"
    if output.error:
        yield output.error.rstrip("\n")
    elif task.message:
        yield task.message


def _failures(jobs: tuple[DeployedJob, ...]) -> Iterator[str]:
    """Lines for each job whose newest run failed: the failed tasks, with the messages of Databricks."""
    for job in jobs:
        newest = next(iter(job.runs), None)
        if newest is None or not newest.failed:
            continue
        yield ""
        yield f"{job.name} failed: {newest.message or newest.state}"
        yield from (f"  {task.key}: {task.message or task.state}" for task in newest.tasks if task.failed)
        if newest.url:
            yield f"  {newest.url}"


def _started(run: Run) -> str:
    return "not yet" if run.started is None else f"{run.started:%Y-%m-%d %H:%M}"


def _took(run: Run) -> str:
    if run.seconds is None:
        return ""
    minutes, seconds = divmod(round(run.seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _state(run: Run) -> str:
    colour = "red" if run.failed else _COLOURS.get(run.state)
    return f"[{colour}]{run.state}[/{colour}]" if colour else run.state

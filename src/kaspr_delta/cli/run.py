"""``kaspr-delta run`` and ``rebuild``: run an application, once or continuously, or make state anew."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kaspr_delta.cli.beginning import begun
from kaspr_delta.cli.completion import complete_rebuilt, complete_resource
from kaspr_delta.cli.deployed import ProfileOption, TargetOption
from kaspr_delta.cli.interruption import Stop, stopped_by_change, stopped_by_signal
from kaspr_delta.cli.operation import operate
from kaspr_delta.cli.progress import ProgressOutput, log_as_json, note, results, show_report, warn, working
from kaspr_delta.cli.target import Target
from kaspr_delta.errors import AlreadyRunningError, ResourceFailedError, UsageError, may_pass
from kaspr_delta.grant import Grant
from kaspr_delta.plan.definition.waiting import in_words
from kaspr_delta.plan.names import current_view
from kaspr_delta.runtime.versions import Versions
from kaspr_delta.spec.diagnostics import Severity
from kaspr_delta.spec.durations import duration_text, interval
from kaspr_delta.storage.settled import Settled
from kaspr_delta.storage.spark.grants import grant_missing

if TYPE_CHECKING:
    from kaspr_delta.application import Application
    from kaspr_delta.runtime.report import RunReport

_IN_JOBS = "In jobs"
OriginOption = Annotated[
    str,
    typer.Option(
        "--origin",
        metavar="NAME",
        help="The name of the manifests, if they lie elsewhere each time.",
        rich_help_panel=_IN_JOBS,
    ),
]
# Only jobs of the bundle use it.
RevisionOption = Annotated[
    str,
    typer.Option("--revision", hidden=True, help="Apply the manifests only if they have this revision."),
]
# Seconds before a run tries again what failed.
_BEFORE_RETRY = 60.0


def run(
    target: Target,
    path: Annotated[Path | None, typer.Argument(help="Manifests to apply first: a file or a folder.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="KIND/NAME",
            help="Only this resource; may be repeated.",
            autocompletion=complete_resource,
        ),
    ] = None,
    continuous: Annotated[bool, typer.Option("--continuous", help="Keep running until stopped.")] = False,
    every: Annotated[str, typer.Option(help="With --continuous: the least time between two batches.")] = "5s",
    progress: Annotated[
        ProgressOutput,
        typer.Option(
            help="A live table, plain lines, or JSON lines for a log; auto is live on a terminal, else plain."
        ),
    ] = "auto",
    origin: OriginOption = "",
    revision: RevisionOption = "",
    apply: Annotated[
        bool, typer.Option("--apply/--no-apply", hidden=True, help="Apply the manifests, or only run by them.")
    ] = True,
    grant: Annotated[
        list[str] | None,
        typer.Option(
            "--grant",
            metavar="WHO=PRIVILEGES",
            help="In a catalog: grant these on the schema first.",
            rich_help_panel=_IN_JOBS,
        ),
    ] = None,
    retries: Annotated[
        int, typer.Option(min=0, help="How often to try again what may go well then.", rich_help_panel=_IN_JOBS)
    ] = 0,
    waiting: Annotated[
        Literal["fail", "note"],
        typer.Option(help="What to do about a resource that waits for longer than --grace.", rich_help_panel=_IN_JOBS),
    ] = "note",
    grace: Annotated[str, typer.Option(help="For how long a resource may wait.", rich_help_panel=_IN_JOBS)] = "1h",
    all_dead_letters: Annotated[
        Literal["fail", "note"],
        typer.Option(
            help="What to do about a resource of which all events became dead letters.", rich_help_panel=_IN_JOBS
        ),
    ] = "note",
    until_changed: Annotated[
        Path | None,
        typer.Option(
            "--until-changed",
            metavar="FILE",
            help="Also stop when this file changes, and wait if all fail again as before.",
            rich_help_panel=_IN_JOBS,
        ),
    ] = None,
    grant_internal: Annotated[
        list[str] | None,
        # Only jobs of the bundle use it.
        typer.Option("--grant-internal", hidden=True, help="The same on the schema of internal tables."),
    ] = None,
) -> None:
    """Run joins, agents and made tables until everything is caught up, or, with --continuous, until stopped.

    Tasks run by their schedules with --continuous, and once where --only names them. The exit code is 0, 1 when a
    resource failed (the others went on), 2 for a wrong call. Ctrl-C and SIGTERM let the batches under way finish; with
    --continuous the exit code is then 0, or 1 if a resource had failed; else 130 or 143. The next run goes on from
    there. A second Ctrl-C ends the run at once.

    Progress is on standard error: rows in and out, how many rows and records a resource has yet to read (lag), and how
    long its batches take. What the run did is on standard output. JSON lines have `at`, `event` (batch, lag,
    failed, note, warning or error) and what belongs to it; then the outcome is JSON too.

    For example:

        kaspr-delta run bundles/order-system
        kaspr-delta run --only join/orders-products-join
        kaspr-delta run --continuous --every 1s --progress json 2>run.log
    """
    interval("--every", every)  # report a mistake before Spark is started
    longest = timedelta(milliseconds=interval("--grace", grace)) if waiting == "fail" else None
    grants, on_internal = ([Grant.of(text) for text in texts or ()] for texts in (grant, grant_internal))
    if progress == "json":
        log_as_json()
    make_grants = partial(grant_missing, grants=grants, on_internal=on_internal)

    def begin() -> Application:
        application = target.open(path, origin, revision, apply=apply, trusting=not continuous)
        application.check(only or [])
        # Tasks that read no manifests do not know the grants.
        if grants or on_internal or (target.location.is_unity and path is not None):
            make_grants(application.spark, application.delta.namespace, trusting=not continuous)
        return application

    stopped = partial(stopped_by_change, file=until_changed, revision=revision)
    application: Application | None
    if continuous and until_changed is not None and target.location.is_unity:
        settled = Settled(target.location.namespace("").checkpoints)
        application = begun(begin, settled, revision, only or [], stopped)
        if application is None:
            return
    else:
        application = begin()
    if continuous:
        _show_versions(application)
    printed = _show_waiting(application)
    if continuous:
        note(f"running, a batch at most every {every}; Ctrl-C stops")
        _run_continuously(
            application,
            every,
            only or [],
            progress,
            stopped,
            restarted=until_changed is not None,
        )
    else:
        report = _run(application, only or [], progress, retries, printed)
        if report.resources and (grants or on_internal):  # it asks the catalog anyway: somebody may have revoked one
            make_grants(application.spark, application.delta.namespace)
        if report.fruitless and all_dead_letters == "fail":
            raise ResourceFailedError(f"every event of {', '.join(report.fruitless)} became a dead letter")
        _refuse_long_waiting(application, only or [], longest)


def _run(
    application: Application, only: list[str], progress: ProgressOutput, retries: int, printed: Collection[str]
) -> RunReport:
    from kaspr_delta.cli.run_display import shown

    began = datetime.now(timezone.utc)
    with stopped_by_signal() as stop:
        with shown(progress, keep=False) as listener:
            work = partial(application.run, only=only, listener=listener, stop=stop.asked)
            report, is_first = _tried(work, retries, stop.asked)
        if not is_first:
            report = replace(report, resources=application.report_since(began, only).resources)
        if application.uses_spark:
            _show_versions(application)
            _show_waiting(application, printed)
        show_report(report, results())
    if stop.by is not None:
        note("stopped before everything was caught up; the next run goes on from here")
        raise typer.Exit(stop.code)
    return report


def _tried(work: Callable[[], RunReport], retries: int, stop: threading.Event) -> tuple[RunReport, bool]:
    """The report of a run, which is tried again so many times if it may go well then; and whether it is the first."""
    for left in range(retries, 0, -1):
        try:
            return work(), left == retries
        except Exception as error:  # whatever it is, ``may_pass`` decides
            if stop.is_set() or not may_pass(error):
                raise
            warn(f"{error}\ntried again in {_BEFORE_RETRY:.0f} s, at most {left} times")
        stop.wait(_BEFORE_RETRY)
    return work(), retries == 0


def _refuse_long_waiting(application: Application, only: list[str], longest: timedelta | None) -> None:
    """Raise ResourceFailedError if one of these resources, or of all, has waited for longer than that."""
    if longest is None:
        return
    late = [f"{name} {reason}" for name, reason in application.late(longest).items() if not only or name in only]
    if late:
        length = duration_text(longest // timedelta(milliseconds=1))
        raise ResourceFailedError("\n".join([f"waiting for longer than {length}:", *late]))


def _run_continuously(
    application: Application,
    every: str,
    only: list[str],
    progress: ProgressOutput,
    stopped: Callable[[Stop], AbstractContextManager[None]],
    *,
    restarted: bool,
) -> None:
    from kaspr_delta.cli.run_display import shown

    with stopped_by_signal() as stop, stopped(stop), shown(progress, keep=True) as listener:
        application.run_continuously(stop.asked, every=every, only=only, listener=listener, restarted=restarted)
    note("stopped; the next run goes on from here")


def _show_versions(application: Application) -> None:
    versions = Versions.with_spark(application.spark.version)
    note(str(versions))
    if versions.warning is not None:
        warn(versions.warning)


def _show_waiting(application: Application, printed: Collection[str] = ()) -> set[str]:
    """Print what waits and other news of the plan, unless it was printed; return it. With Spark there may be more."""
    plan = application.plan
    warnings = [f"{ref} {in_words(reason)}" for ref, reason in plan.waiting]
    findings = [str(finding) for finding in plan.findings if finding.severity is Severity.WARNING]
    for tell, texts in ((warn, warnings), (note, plan.notices), (warn, findings)):
        for text in texts:
            if text not in printed:
                tell(text)
    return {*warnings, *plan.notices, *findings}


def rebuild(
    target: Target,
    resource: Annotated[
        str,
        typer.Argument(
            metavar="KIND/NAME",
            help="The resource: join/NAME or table/NAME.",
            autocompletion=complete_rebuilt,
        ),
    ],
    path: Annotated[Path | None, typer.Argument(help="Manifests to apply first: a file or a folder.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    show: Annotated[
        Literal["new", "old"] | None, typer.Option("--show", help="Only turn the view current__NAME.")
    ] = None,
    patience: Annotated[str, typer.Option(help="How long to wait while another process runs the resource.")] = "0s",
    deployed: TargetOption = None,
    profile: ProfileOption = None,
    origin: OriginOption = "",
    revision: RevisionOption = "",
) -> None:
    """Make the state of a join, or of a table made from another resource, anew: by its newest applied definition.

    The new state is computed from the current rows of its sources. A rebuild is needed if a join's extractor, type or
    tables have changed, or a table's functions, and if unread changes of a source are gone. Readers see one change,
    with only the rows that differ.

    With --dry-run the result stays as it is. The rows that would be added, removed or changed are counted, and written
    into the table differences__NAME beside it, with the row before and after. The rebuild drops that table.

    With --show new the view current__NAME, which resources with onChange: side-by-side have, shows the new result, in
    one commit; with --show old it shows the stored one again, as it does after a rebuild.

    With --target the job for operations that was deployed to that target does it, by the manifests that were deployed.
    The command waits for it and prints its output.

    For example:

        kaspr-delta rebuild join/orders-products-join
        kaspr-delta rebuild table/orders-per-customer --dry-run
        kaspr-delta rebuild table/orders-per-customer --show new
        kaspr-delta rebuild join/orders-products-join --target prod
    """
    if dry_run and show:
        raise UsageError("--dry-run and --show exclude each other")
    wait = interval("--patience", patience)
    if deployed is not None:
        if path is not None:
            raise UsageError("--target rebuilds by the manifests that were deployed: leave PATH out")
        only = ["--dry-run"] if dry_run else ["--show", show] if show else []
        options = [*only, *(["--patience", patience] if wait else [])]
        operate(deployed, target.app, profile, ["rebuild", resource, *options])
        return
    application = target.open(path, origin, revision)
    work = partial(_compare if dry_run else _rebuild, application, resource)
    if show is not None:
        work = partial(_show, application, resource, show)
    try:
        work()
    except AlreadyRunningError as error:
        if not wait:
            raise
        note(f"{error}, or wait: this goes on as soon as that has ended, within {patience}")
        work(wait / 1_000)


def _rebuild(application: Application, resource: str, patience: float = 0) -> None:
    with working(f"Rebuilding {resource}"):
        report = application.rebuild(resource, patience=patience)
    show_report(report, results())


def _show(application: Application, resource: str, result: Literal["new", "old"], patience: float = 0) -> None:
    with working(f"Turning the view of {resource}"):
        rows = application.show(resource, result, patience=patience)
    new = f"the new result of {resource}: {rows} rows stand for those of the stored one"
    typer.echo(f"{current_view(resource.partition('/')[2])} shows {new if result == 'new' else 'the stored result'}")


def _compare(application: Application, resource: str, patience: float = 0) -> None:
    with working(f"Comparing {resource}"):
        comparison = application.compare(resource, patience=patience)
    typer.echo(f"{resource}, compared {comparison}")

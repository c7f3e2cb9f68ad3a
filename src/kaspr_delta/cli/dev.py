"""``kaspr-delta dev``: run an application again after each save, and show which rows came out differently."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kaspr_delta.cli.interruption import Stop, stopped_by_signal
from kaspr_delta.cli.progress import console, note, results, table_of, warn
from kaspr_delta.cli.target import Target, starting_spark
from kaspr_delta.cli.validate import print_findings
from kaspr_delta.errors import KasprError, ManifestError, UsageError
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.spec.diagnostics import has_errors, sorted_findings
from kaspr_delta.spec.fixture_files import LoadedFixture, load_fixtures

if TYPE_CHECKING:
    from kaspr_delta.testing.changed_rows import ChangedRow
    from kaspr_delta.testing.development import Development, Turn

_SIGNS = {"added": "[green]+[/green]", "removed": "[red]-[/red]", "changed": "[yellow]~[/yellow]"}
# Characters of a value that are shown.
_SHOWN = 120


def dev(
    target: Target,
    path: Annotated[Path, typer.Argument(help="The manifests of an application: a file or a folder.")] = Path(),
    rows: Annotated[
        int, typer.Option("--rows", min=0, metavar="N", help="How many rows that differ to show for each resource.")
    ] = 10,
) -> None:
    """After each save apply the manifests, run, and show which rows came out differently.

    Spark starts when something needs it, and stays.

    Each run has a temporary warehouse of its own with the rows that fixtures beside the manifests give. So all of them
    pass through the functions as they are now. It stays until the next run, for a look by other commands.

    With --warehouse the rows of that folder stay: agents see new records only, and joins
    and made tables whose definition changed are rebuilt there. Fixtures give rows to a new application only.

    Manifests with errors are not applied. Topics are neither read from Kafka or files nor written there. Ctrl-C ends
    it; the exit code is 0.

    For example:

        kaspr-delta dev bundles/order-system
        kaspr-delta dev bundles/order-system --rows 3 --warehouse wh
    """
    from kaspr_delta.testing.development import Development
    from kaspr_delta.testing.saves import saves

    if not path.exists():
        raise UsageError(f"{path}: there is no such file or folder")
    kept = _warehouse(target)
    folder = path if path.is_dir() else path.parent
    development = Development(path, kept, target.app, target.given, starting_spark)
    with stopped_by_signal() as stop, closing(development):
        for _ in saves(folder, stop.asked.wait, kept):
            fixtures = _checked(target, path, folder)
            if fixtures is not None:
                _turn(development, fixtures, stop, rows)
            if not stop.asked.is_set():
                note("waiting for a save; Ctrl-C ends this")
    note("stopped")


def _warehouse(target: Target) -> Path | None:
    """The folder that the option names; None without it. Raises UsageError for another kind of warehouse.

    The environment may name a warehouse that others use: this one does not count.
    """
    if target.warehouse is None:
        return None
    if not target.location.is_here:
        raise UsageError("this runs on this machine: give a folder as --warehouse, or leave it out")
    return Path(target.location.folder)


def _checked(target: Target, path: Path, folder: Path) -> Sequence[LoadedFixture] | None:
    """Print the findings about manifests and fixtures; return the fixtures, or None if there is an error."""
    fixtures, findings = load_fixtures(folder)
    try:
        _, more = build_plans(target.load(path))
    except ManifestError as error:  # a file of values
        more = error.findings
    if listed := sorted_findings((*findings, *more)):
        print_findings(listed, to_stderr=True)
    if has_errors(listed):
        note("nothing was applied")
        return None
    return fixtures


def _turn(development: Development, fixtures: Sequence[LoadedFixture], stop: Stop, rows: int) -> None:
    try:
        turn = development.turn(fixtures, stop.asked)
    except KasprError as error:  # the next save may put it right
        console().print(str(error), markup=False)
        return
    if turn is None:
        return
    for name, reason in turn.waiting.items():
        warn(f"{name} {reason}")
    for name, reason in turn.rebuilt.items():
        note(f"{name} was made anew: {reason}")
    if turn.differences is None:
        _show_first(turn)
    else:
        for name, differ in turn.differences.items():
            _show(name, differ, rows)
        count = len(turn.differences)
        said = "no row came out differently" if not count else f"rows of {_counted(count, 'resource')} differ"
        results().print(f"{said}: {turn.seconds:.1f} s")
    note(f"the rows are in --warehouse {turn.warehouse}")


def _show_first(turn: Turn) -> None:
    table = table_of(("resource",), ("rows",))
    for name, count in turn.rows.items():
        table.add_row(name, str(count))
    results().print(table)
    results().print(f"first run: {turn.seconds:.1f} s")


def _show(name: str, differ: Sequence[ChangedRow], most: int) -> None:
    out = results()
    out.print(f"[bold]{name}[/bold]: {_counted(len(differ), 'row')} differ{'s' if len(differ) == 1 else ''}")
    for row in islice(differ, most):
        out.print(f"  {_SIGNS[row.kind]} ", end="")
        out.print(f"{row.key}  {'; '.join(_texts(row))}", markup=False, soft_wrap=True)
    if len(differ) > most:
        out.print(f"  and {len(differ) - most} more; --rows shows more of them")


def _texts(row: ChangedRow) -> Iterator[str]:
    """The value of a row that is new or gone, or the fields of one that changed."""
    from kaspr_delta.testing.changed_rows import changed_fields

    if row.before is None or row.after is None:
        fields = row.after or row.before or {}
        yield _text(fields["value"] if fields.keys() == {"value"} else fields)
        return
    for path, before, after in changed_fields(row.before, row.after):
        yield f"{path}: {_text(before)} -> {_text(after)}"


def _text(value: Any) -> str:
    text = "nothing" if value is ... else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"

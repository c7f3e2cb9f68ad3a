"""``kaspr-delta test``: fixtures of applications, each with its result."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from kaspr_delta.cli.progress import console, results
from kaspr_delta.cli.target import Target, starting_spark
from kaspr_delta.errors import KasprError, UsageError

if TYPE_CHECKING:
    from kaspr_delta.testing.run import Result

# Fixtures that run at the same time: a run waits more than it computes.
_SIDE_BY_SIDE = min(4, os.cpu_count() or 1)


def test(
    target: Target,
    path: Annotated[
        Path, typer.Argument(help="A file of fixtures, or a folder whose files named *.test.yaml are run.")
    ] = Path(),
    watch: Annotated[
        bool, typer.Option("--watch", help="Run them again, without a new start of Spark, whenever a file was saved.")
    ] = False,
) -> None:
    """Run the fixtures of applications: what is given, what changes, and what has to come out.

    A fixture belongs to the manifests in the folder of its file. Each runs in a warehouse of its own, which is removed
    afterwards, and reads and writes neither Kafka nor other files than its own. Those that need Spark share one
    session. The exit code is 1 if one fails.

    For example:

        kaspr-delta test bundles/order-system
        kaspr-delta test bundles --watch
    """
    if target.warehouse is not None:
        raise UsageError("a test has a warehouse of its own: leave --warehouse out")
    if not path.exists():
        raise UsageError(f"{path}: there is no such file or folder")
    if not watch:
        raise typer.Exit(0 if _passed(target, path) else 1)
    from kaspr_delta.testing.saves import saves

    for _ in saves(path if path.is_dir() else path.parent, Event().wait):
        try:
            _passed(target, path)
        except KasprError as error:  # the next save may put it right
            console().print(str(error), markup=False)


def _passed(target: Target, path: Path) -> bool:
    """Run the fixtures, and print each result when it is there; return whether all passed. Raises UsageError."""
    from kaspr_delta.testing.fixtures import fixtures_in

    fixtures = fixtures_in(path, values=target.given, app=target.app)
    if not fixtures:
        raise UsageError(f"{path} has no fixtures: these are files named *.test.yaml, beside manifests")
    counted: Counter[bool] = Counter()
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        running = [pool.submit(one.run, starting_spark) for one in fixtures]
        for one in running:
            if one.exception() is None:
                _print(result := one.result())
                counted[not result.differences] += 1
    results().print(f"{counted[True]} passed, {counted[False]} failed")
    for one in running:
        one.result()  # raises an error of this package's own, after the results of the other fixtures
    return not counted[False]


def _print(result: Result) -> None:
    out, failed = results(), bool(result.differences)
    word = "[red]FAILED[/red]" if failed else "[green]ok[/green]    "
    out.print(f"{word} {result.seconds:5.1f} s  ", end="")
    out.print(str(result.fixture), markup=False, soft_wrap=True)
    if failed:
        out.print(f"{result.fixture.location}\n{result}", markup=False, soft_wrap=True)

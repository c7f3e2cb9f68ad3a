"""How long work shows that it goes on: moving on a terminal, plain lines in a log. Always on standard error."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from kaspr_delta.runtime.report import RunReport
    from kaspr_delta.runtime.runner import Progressed

# Made anew at each use: tests and notebooks put other streams in the place of sys.stderr.


def console() -> Console:
    """Where progress is shown."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is under way, and how long it took."""
    screen, started = console(), time.monotonic()
    if screen.is_terminal:
        with screen.status(f"{what} …"):
            yield
    else:
        yield
    screen.print(f"{what}: {time.monotonic() - started:.1f} s", style="dim")


def show_progress(progressed: Progressed) -> None:
    """A line for a resource that had something to do."""
    if progressed.rows_in:
        console().print(f"  {progressed.resource}: {progressed.rows_in} rows in", style="dim")


def show_report(report: RunReport, screen: Console) -> None:
    """What a run did, resource by resource."""
    if not report.resources:
        screen.print("nothing to do: everything is caught up")
        return
    table = Table("resource", box=None, header_style="bold")
    for heading in ("batches", "rows in", "rows out", "dead letters", "seconds"):
        table.add_column(heading, justify="right")
    for name, done in sorted(report.resources.items()):
        letters = f"[red]{done.dead_letters}[/red]" if done.dead_letters else "0"
        counts = (str(done.batches), str(done.rows_in), str(done.rows_out), letters)
        table.add_row(name, *counts, f"{done.seconds:.1f}")
    screen.print(table)
    if report.dead_letters:
        screen.print("[red]some rows could not be processed[/red]: see `kaspr-delta dead-letters`")

"""The progress of long work on standard error, live on a terminal and in lines in a log; and a run's results."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar, copy_context
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import typer

from kaspr_delta.serde.json_lines import json_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from kaspr_delta.runtime.report import RunReport


ProgressOutput = Literal["auto", "live", "plain", "json"]
"""The forms in which progress is shown; ``auto`` is live on a terminal and plain elsewhere."""


_FILE_WIDTH = 120
_LINES = 1_000
_as_json: ContextVar[bool] = ContextVar("as_json", default=False)

# Consoles are made at each use: tests and notebooks replace sys.stderr. A name such as `:100:` stays as it is. Commands
# that print lines do not import rich.


def console() -> Console:
    """Where progress is shown."""
    from rich.console import Console

    return Console(stderr=True, emoji=False, highlight=False, soft_wrap=True)


def results() -> Console:
    """Where results are shown, on standard output: as wide as the terminal, and wide enough in a file."""
    from rich.console import Console

    screen = Console(emoji=False, highlight=False)
    if not screen.is_terminal and "COLUMNS" not in os.environ:
        screen.width = _FILE_WIDTH
    return screen


def print_lines(values: Iterable[Any]) -> None:
    """Print values as JSON lines on standard output, a thousand at a time: to print them one by one takes longer."""
    lines = map(json_line, values)
    while part := list(islice(lines, _LINES)):
        typer.echo("\n".join(part))


def log_as_json() -> None:
    """From now on everything on standard error is a JSON object a line, with ``at`` and ``event``.

    So is what this package and others log from warnings on.
    """
    _as_json.set(True)
    logging.basicConfig(level=logging.WARNING, handlers=[_JsonHandler()])


class _JsonHandler(logging.Handler):
    """Writes a logged message as a line of JSON."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = {"message": record.getMessage(), "logger": record.name}
        if record.exc_info is not None:
            fields["error"] = logging.Formatter().formatException(record.exc_info)
        log("error" if record.levelno >= logging.ERROR else "warning", fields)


def logs_json() -> bool:
    """Whether standard error is JSON lines."""
    return _as_json.get()


def log(event: str, fields: Mapping[str, Any]) -> None:
    """Write one line of JSON."""
    at = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    typer.echo(json.dumps({"at": at, "event": event, **fields}, ensure_ascii=False), err=True)


def note(message: str, style: str = "dim", event: str = "note") -> None:
    """Say something about the work."""
    if logs_json():
        log(event, {"message": message})
    else:
        console().print(message, style=style, markup=False)


def warn(message: str) -> None:
    """Say something that somebody should look at."""
    note(message, "yellow", "warning")


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is under way, and how long it took."""
    screen, started = console(), time.monotonic()
    if screen.is_terminal and not logs_json():
        with screen.status(f"{what} …"):
            yield
    else:
        yield
    note(f"{what}: {time.monotonic() - started:.1f} s")


@contextlib.contextmanager
def announced(what: str, after: float = 2.0) -> Iterator[None]:
    """Say what is under way if it takes longer than some seconds."""
    timer = threading.Timer(after, copy_context().run, [note, f"{what} …"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def table_of(texts: Sequence[str], numbers: Sequence[str] = ()) -> Table:
    """An empty table with columns of texts, and then of numbers. A text is never cut."""
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for heading in texts:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right")
    return table


def show_report(report: RunReport, screen: Console) -> None:
    """Print the report of a run, one line a resource."""
    if logs_json():
        counts = {
            name: {
                "batches": done.batches,
                "rowsIn": done.rows_in,
                "rowsOut": done.rows_out,
                "deadLetters": done.dead_letters,
                "seconds": round(done.seconds, 3),
                **({"rebuilt": report.rebuilt[name]} if name in report.rebuilt else {}),
            }
            for name, done in sorted(report.resources.items())
        }
        typer.echo(json.dumps({"resources": counts}, ensure_ascii=False))
        return
    if not report.resources:
        screen.print("nothing to do: everything is caught up")
        return
    table = table_of(("resource",), ("batches", "rows in", "rows out", "dead letters", "seconds"))
    for name, done in sorted(report.resources.items()):
        letters = f"[red]{done.dead_letters}[/red]" if done.dead_letters else "0"
        counted = (str(done.batches), str(done.rows_in), str(done.rows_out), letters)
        table.add_row(name, *counted, f"{done.seconds:.1f}")
    screen.print(table)
    for name, reason in sorted(report.rebuilt.items()):
        screen.print(f"{name} was made anew: {reason}", markup=False)
    if report.dead_letters:
        screen.print("[red]some rows could not be processed[/red]: see `kaspr-delta dead-letters`")

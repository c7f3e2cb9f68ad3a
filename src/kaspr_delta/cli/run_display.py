"""The display of a run while it goes on: a live table on a terminal, or a line for every batch."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table
from rich.text import Text

from kaspr_delta.cli.progress import ProgressOutput, console, log, note, warn
from kaspr_delta.engine.batch.checkpoint import STATE_FORMAT
from kaspr_delta.errors import first_line
from kaspr_delta.plan.definition.waiting import in_words
from kaspr_delta.runtime import run_events as events
from kaspr_delta.runtime.failures import short_text

if TYPE_CHECKING:
    from kaspr_delta.engine.batch.progress import BatchReport

_STYLES = {"runs": "cyan", "caught up": "green", "failed": "bold red"}


@contextlib.contextmanager
def shown(output: ProgressOutput, *, keep: bool) -> Iterator[events.Listener]:
    """The listener that shows a run. With ``keep`` the table on a terminal stays when the run has ended."""
    screen = console()
    if output == "json":
        yield Lines(as_json=True)
    elif output == "live" or (output == "auto" and screen.is_terminal):
        board = Board()
        # The table is drawn four times a second: nothing here waits for Spark.
        with Live(get_renderable=board.table, console=screen, refresh_per_second=4, transient=not keep):
            yield board
    else:
        yield Lines()


@dataclass
class Tally:
    """The progress of a resource in this run. ``lag`` is in rows, None if it is not known."""

    state: str = ""
    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    dead_letters: int = 0
    seconds: float = 0.0
    lag: int | None = None

    def take(self, event: events.RunEvent) -> None:
        """Follow an event."""
        match event:
            case events.Started():
                self.state = "runs"
            case events.LagSeen(rows=rows):
                self.lag = rows
            case events.CaughtUp():
                self.state, self.lag = "caught up", 0
            case events.Waits():
                self.state = "waits"
            case events.Failed():
                self.state = "failed"
            case events.BatchDone(report=report):
                self.batches += 1
                self.rows_in += report.rows_in
                self.rows_out += report.rows_out
                self.dead_letters += report.dead_letters
                self.seconds += report.seconds


@dataclass
class Tallies:
    """The progress of all resources; fed from several threads."""

    resources: dict[str, Tally] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, event: events.RunEvent) -> Tally:
        """Follow an event; the tally of its resource."""
        with self.lock:
            tally = self.resources.setdefault(str(event.resource), Tally())
            tally.take(event)
            return tally


class Board(Tallies):
    """The table on a terminal."""

    def __call__(self, event: events.RunEvent) -> None:
        self.take(event)

    def table(self) -> Table:
        """The progress of all resources."""
        table = Table(box=None, header_style="bold")
        for heading in ("resource", ""):
            table.add_column(heading, no_wrap=True)
        for heading in ("batches", "in", "out", "dead", "lag", "s/batch"):
            table.add_column(heading, justify="right", no_wrap=True)
        with self.lock:
            for name, one in self.resources.items():
                table.add_row(
                    name,
                    Text(one.state, _STYLES.get(one.state, "")),
                    *(f"{count:,}" for count in (one.batches, one.rows_in, one.rows_out)),
                    Text(f"{one.dead_letters:,}", "red" if one.dead_letters else ""),
                    "" if one.lag is None else f"{one.lag:,}",
                    f"{one.seconds / one.batches:.1f}" if one.batches else "",
                )
        return table


@dataclass
class Lines(Tallies):
    """A line for every batch, and for each other event that is shown."""

    as_json: bool = False

    def __call__(self, event: events.RunEvent) -> None:
        before = self.resources.get(str(event.resource), Tally()).lag
        lag = self.take(event).lag
        with contextlib.suppress(OSError):  # a closed log does not stop the run
            self._tell(event, before, lag)

    def _tell(self, event: events.RunEvent, before: int | None, lag: int | None) -> None:  # noqa: C901  a case an event
        match event:
            case events.BatchDone(report=report):
                self._batch(event, report, lag)
            case events.LagSeen(rows=rows) if self.as_json and rows != before:
                log("lag", {"resource": str(event.resource), "rows": rows})
            case events.ColumnsChanged():
                note(
                    f"  {event.resource}: columns of a table that it reads were added or moved. It goes on, matches"
                    " columns by name and takes up new ones"
                )
            case events.Migrated(before=older):
                note(f"  {event.resource}: its state was migrated from format {older} to {STATE_FORMAT}")
            case events.GapFilled(rebuilt=False):
                note(
                    f"  {event.resource}: changes that it had not read were gone from the change feed. It has read its"
                    " records from the rows of their topic: none is missing"
                )
            case events.GapFilled():
                warn(
                    f"  {event.resource}: changes that it had not read were gone. Its state was made anew from the"
                    " tables as they are, as onGap of the application says"
                )
            case events.StateRebuilt(reason=reason):
                warn(f"  {event.resource}: {reason}, and was made anew, as onChange says")
            case events.Waits(reason=reason):
                warn(f"  {event.resource} {in_words(reason)}")
            case events.Failed(error=error):
                if self.as_json:
                    log("failed", {"resource": str(event.resource), "message": first_line(error)})
                else:
                    note(
                        f"  {event.resource}: failed, the others go on: {short_text(error).partition(chr(10))[0]}",
                        style="red",
                    )

    def _batch(self, event: events.BatchDone, report: BatchReport, lag: int | None) -> None:
        if self.as_json:
            log(
                "batch",
                {
                    "resource": str(event.resource),
                    "checkpoint": event.batch.checkpoint,
                    "batch": event.batch.number,
                    "rowsIn": report.rows_in,
                    "rowsOut": report.rows_out,
                    "deadLetters": report.dead_letters,
                    "lag": lag,
                    "seconds": round(report.seconds, 3),
                },
            )
            return
        letters = f", {report.dead_letters} dead letters" if report.dead_letters else ""
        behind = f", lag {lag}" if lag else ""
        did = f"{report.rows_in} rows in, {report.rows_out} out{letters}{behind}, {report.seconds:.1f} s"
        note(f"  {event.resource}: {did}")

"""Results of a measurement: a table on the screen, a JSON file to compare with."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the results: rows per second of ours and, where there is one to compare with, of a peer.

    ``cpu`` and ``peer_cpu`` are processor seconds for a million rows, which a busy machine changes less than it changes
    the time on the clock.
    """

    name: str
    ours: float
    peer: float | None = None
    ratio: float | None = None
    goal: str | None = None
    holds: bool | None = None
    cpu: float | None = None
    peer_cpu: float | None = None


def processor_seconds() -> dict[int, float]:
    """By process the seconds of this one and of all it has started: Spark's JVM, the Python workers. Linux tells."""
    seconds, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            fields = stat.read_text().rpartition(")")[2].split()
            process = int(stat.parent.name)
            parents[process] = int(fields[1])
            seconds[process] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while grown := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= grown
    return {process: seconds[process] for process in ours & seconds.keys()}


def spent_since(before: dict[int, float]) -> float:
    """Processor seconds since then, of the processes that are there still."""
    return sum(seconds - before.get(process, 0) for process, seconds in processor_seconds().items())


def rows_per_second(rows: int, work: Callable[[], object]) -> float:
    """How fast some work handled its rows."""
    started = time.monotonic()
    work()
    return rows / (time.monotonic() - started)


def publish(measurements: Iterable[Measurement]) -> None:
    """Print the measurements and write them to ``results/latest.json``, with the machine they come from beside it."""
    measured = list(measurements)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps([asdict(m) for m in measured], indent=2) + "\n")
    machine = {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    (RESULTS / "machine.json").write_text(json.dumps(machine, indent=2) + "\n")
    table = Table("stage", box=None, header_style="bold")
    for heading in ("rows per second", "peer's", "ratio", "goal", "CPU s per million", "peer's"):
        table.add_column(heading, justify="right")
    for m in measured:
        peer = "" if m.peer is None else f"{m.peer:,.0f}"
        ratio = "" if m.ratio is None else f"[{'green' if m.holds else 'red'}]{m.ratio:.2f}[/]"
        cpu = (f"{seconds:.1f}" if seconds else "" for seconds in (m.cpu, m.peer_cpu))
        table.add_row(m.name, f"{m.ours:,.0f}", peer, ratio, m.goal or "", *cpu)
    Console(highlight=False).print(table)

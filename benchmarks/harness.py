"""Results of a measurement: a table on the screen, a JSON file to compare with."""

from __future__ import annotations

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
    """One line of the results: rows per second of ours and, where there is one to compare with, of a peer."""

    name: str
    ours: float
    peer: float | None = None
    ratio: float | None = None
    goal: str | None = None
    holds: bool | None = None


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
    for heading in ("rows per second", "peer's", "ratio", "goal"):
        table.add_column(heading, justify="right")
    for m in measured:
        peer = "" if m.peer is None else f"{m.peer:,.0f}"
        ratio = "" if m.ratio is None else f"[{'green' if m.holds else 'red'}]{m.ratio:.2f}[/]"
        table.add_row(m.name, f"{m.ours:,.0f}", peer, ratio, m.goal or "")
    Console(highlight=False).print(table)

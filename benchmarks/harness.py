"""Measurements of some work, in wall-clock seconds and processor seconds, and their comparison with a peer."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from deltalake import DeltaTable


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the results: our value and, if there is a peer, the peer's.

    ``unit`` is that of both values: rows a second, seconds or GiB. ``ratio`` is our value divided by the peer's.
    ``cpu`` and ``peer_cpu`` are processor seconds, which a busy machine changes less than wall-clock seconds; if the
    unit is rows a second, those for a million rows. ``benchmark`` is its short name, such as B1.
    """

    name: str
    ours: float
    peer: float | None = None
    ratio: float | None = None
    goal: str | None = None
    holds: bool | None = None
    cpu: float | None = None
    peer_cpu: float | None = None
    benchmark: str = ""
    unit: str = "rows/s"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of some work: wall-clock seconds and processor seconds."""

    seconds: float
    cpu: float


def cost_of(work: Callable[[], object]) -> Cost:
    """Do some work, and return its cost."""
    before, started = processor_seconds(), time.monotonic()
    work()
    return Cost(time.monotonic() - started, spent_since(before))


def mean_cost(costs: list[Cost]) -> Cost:
    """The mean of several costs."""
    return Cost(mean(cost.seconds for cost in costs), mean(cost.cpu for cost in costs))


def median_cost(costs: Sequence[Cost]) -> Cost:
    """The medians of several costs."""
    return Cost(median(cost.seconds for cost in costs), median(cost.cpu for cost in costs))


def compared(benchmark: str, name: str, ours: Cost, peer: Cost, most: float | None, note: str = "") -> Measurement:  # noqa: PLR0913, PLR0917  one a column
    """A comparison with a peer, in seconds. The goal is a ratio of at most ``most``; None: there is no goal."""
    ratio = ours.seconds / peer.seconds
    goal, holds = (None, None) if most is None else (f"<= {most:g}", ratio <= most)
    cpu, peer_cpu = round(ours.cpu, 2), round(peer.cpu, 2)
    seconds = round(ours.seconds, 3), round(peer.seconds, 3)
    return Measurement(name, *seconds, round(ratio, 3), goal, holds, cpu, peer_cpu, benchmark, "s", note)


def processor_seconds() -> dict[int, float]:
    """Processor seconds by process id, of this process and its descendants: Spark's JVM, Python workers. Linux only."""
    seconds, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has just ended
            fields = stat.read_text().rpartition(")")[2].split()
            process = int(stat.parent.name)
            parents[process] = int(fields[1])
            seconds[process] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while grown := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= grown
    return {process: seconds[process] for process in ours & seconds.keys()}


def spent_since(before: dict[int, float]) -> float:
    """Processor seconds spent since ``before`` by the processes that still run."""
    return sum(seconds - before.get(process, 0) for process, seconds in processor_seconds().items())


def forget_the_past(table: Path | str) -> None:
    """Delete the files that the newest version of a Delta table no longer has. Older versions become unreadable.

    With 10 M rows each MERGE leaves gigabytes of them.
    """
    # A vacuum would commit to the table. Its dry run names files that commits removed, not files still being written.
    for file in DeltaTable(str(table)).vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False):
        Path(table, file).unlink(missing_ok=True)

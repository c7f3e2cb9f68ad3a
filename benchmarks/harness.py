"""What a measurement is, and how it is taken: seconds on the clock, and of processors."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the results: ours and, where there is one to compare with, a peer's.

    ``unit`` says what both are: rows a second, or seconds. ``ratio`` is ours over the peer's. ``cpu`` and ``peer_cpu``
    are processor seconds, which a busy machine changes less than the time on the clock; of rows a second for a million
    rows. ``benchmark`` is what goals call it.
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
    """What some work took: seconds, and processor seconds."""

    seconds: float
    cpu: float


def cost_of(work: Callable[[], object]) -> Cost:
    """Do some work."""
    before, started = processor_seconds(), time.monotonic()
    work()
    return Cost(time.monotonic() - started, spent_since(before))


def mean_cost(costs: list[Cost]) -> Cost:
    """The mean of several."""
    return Cost(mean(cost.seconds for cost in costs), mean(cost.cpu for cost in costs))


def median_cost(costs: Sequence[Cost]) -> Cost:
    """The medians of several."""
    return Cost(median(cost.seconds for cost in costs), median(cost.cpu for cost in costs))


def compared(benchmark: str, name: str, ours: Cost, peer: Cost, most: float | None, note: str = "") -> Measurement:  # noqa: PLR0913, PLR0917  one a column
    """Ours against a peer, in seconds: the goal is that the ratio is at most so much; None is no goal."""
    ratio = ours.seconds / peer.seconds
    goal, holds = (None, None) if most is None else (f"<= {most:g}", ratio <= most)
    cpu, peer_cpu = round(ours.cpu, 2), round(peer.cpu, 2)
    seconds = round(ours.seconds, 3), round(peer.seconds, 3)
    return Measurement(name, *seconds, round(ratio, 3), goal, holds, cpu, peer_cpu, benchmark, "s", note)


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

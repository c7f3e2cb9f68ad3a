"""B9: the memory of a first load and of a change of 1 %. KASPR_DELTA_DRIVER_MEMORY sets the heap of the driver."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from benchmarks import data
from benchmarks.data import Size
from benchmarks.harness import Measurement, processor_seconds
from benchmarks.warehouses import Orders

_LOOK = 1.0
_GOAL = 4.0


def measure(folder: Path, rows: int) -> Iterator[Measurement]:
    """The most memory that this process and its descendants take together: JVM and Python workers."""
    size = Size.of(rows)
    orders = Orders.filled(folder / "wh", size)
    with _most_memory() as most:
        orders.load()
        orders.expect(rows)
    yield _measurement(f"first load of {size}", most[0])
    with _most_memory() as most, orders.running() as running:
        count = rows // 100
        running.follow(data.changed_orders(orders.app.spark, size, count, 1), "orders", count)
    orders.expect(rows)
    yield _measurement(f"{count:,} of {size} changed", most[0])


def _measurement(what: str, most: int) -> Measurement:
    """A line of the results. The goal is for the driver's heap: a driver with too small a heap does not get here."""
    memory = os.environ.get("KASPR_DELTA_DRIVER_MEMORY", "2g")
    holds = float(memory.removesuffix("g")) <= _GOAL if memory.endswith("g") else None
    goal, note = f"a driver of {_GOAL:g} GiB", f"a heap of {memory}; the figure is all memory, of Python workers too"
    return Measurement(what, round(most / 2**30, 2), goal=goal, holds=holds, benchmark="B9", unit="GiB", note=note)


@contextlib.contextmanager
def _most_memory() -> Iterator[list[int]]:
    """A list of one number: the most resident memory of all processes together so far, in bytes."""
    most, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK):
            most[0] = max(most[0], sum(map(_resident, processor_seconds())))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def _resident(process: int) -> int:
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0

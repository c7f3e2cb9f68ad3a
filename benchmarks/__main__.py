"""``python -m benchmarks``: run benchmarks, print the results, and write them to a file of ``results``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import (
    agents,
    first_load,
    growth,
    hot_row,
    latency,
    memory,
    order_enrichment,
    scheduled_run,
    small_changes,
    without,
    year_of_commits,
)
from benchmarks.harness import Measurement
from benchmarks.results import LATEST, RESULTS, publish

_MILLION = 1_000_000


BENCHMARKS: dict[str, Callable[[Path, int], Iterator[Measurement]]] = {
    "first-load": first_load.measure,
    "small-changes": small_changes.measure,
    "hot-row": hot_row.measure,
    "latency": latency.measure,
    "growth": growth.measure,
    "agents": agents.measure,
    "scheduled-run": scheduled_run.measure,
    "year-of-commits": year_of_commits.measure,
    "memory": memory.measure,
    "order-enrichment": order_enrichment.measure,
}
"""Benchmarks by name: each is a function of a folder and of the number of rows of the larger table."""


def main() -> None:
    """Run benchmarks on temporary warehouses."""
    parser = argparse.ArgumentParser(description="What joins, agents and runs cost, as ratios to peers in one run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all of {', '.join(BENCHMARKS)}, or some")
    parser.add_argument("--rows", type=int, default=_MILLION, help="rows of the larger table; 10000 for a short look")
    parser.add_argument("--add", action="store_true", help="to results/latest.json, not to a file of their own")
    parser.add_argument("--without", choices=without.OPERATIONS, help="let Spark do this native operation")
    arguments = parser.parse_args()
    if arguments.without:
        without.OPERATIONS[arguments.without]()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]}: choose from {', '.join(BENCHMARKS)}")
    name = "-".join([*arguments.names, *filter(None, [arguments.without])]).replace(" ", "-")
    file = LATEST if arguments.add or not name else RESULTS / f"{name}.json"
    publish(_all(arguments.names or list(BENCHMARKS), arguments.rows), sys.argv[1:], file, add=arguments.add)


def _all(names: list[str], rows: int) -> Iterator[Measurement]:
    for name in names:
        with tempfile.TemporaryDirectory(prefix="kaspr-delta-bench-", ignore_cleanup_errors=True) as folder:
            yield from BENCHMARKS[name](Path(folder), rows)


if __name__ == "__main__":
    main()

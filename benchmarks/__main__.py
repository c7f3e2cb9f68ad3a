"""``python -m benchmarks``: measure, print, write ``results/latest.json``."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import agents, order_enrichment
from benchmarks.harness import Measurement, publish


def main() -> None:
    """Run the benchmarks on warehouses that are thrown away."""
    parser = argparse.ArgumentParser(description="Rows per second, of every stage and against peers.")
    parser.add_argument("--orders", type=int, default=100_000)
    parser.add_argument("--products", type=int, default=1_000)
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--only", choices=("order-enrichment", "agents"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        publish(_all(Path(folder), arguments))


def _all(folder: Path, arguments: argparse.Namespace) -> Iterator[Measurement]:
    if arguments.only in {None, "order-enrichment"}:
        yield from order_enrichment.measure(folder / "orders", arguments.orders, arguments.products)
    if arguments.only in {None, "agents"}:
        (folder / "agents").mkdir()
        yield from agents.measure(folder / "agents", arguments.events)


if __name__ == "__main__":
    main()

"""``python -m benchmarks``: measure, print, write ``results/latest.json``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.harness import publish
from benchmarks.order_enrichment import measure


def main() -> None:
    """Run the benchmarks on a warehouse that is thrown away."""
    parser = argparse.ArgumentParser(description="Rows per second of every stage of order enrichment.")
    parser.add_argument("--orders", type=int, default=100_000)
    parser.add_argument("--products", type=int, default=1_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        publish(measure(Path(folder), arguments.orders, arguments.products))


if __name__ == "__main__":
    main()

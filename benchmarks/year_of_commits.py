"""B10: a scheduled run of an application whose tables have had many commits for a year, beside a new one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from benchmarks.harness import Cost, Measurement, compared, cost_of, median_cost
from kaspr_delta import Application
from kaspr_delta.cli.demo import bundle_folder, data_generator

_TIMES = 5
# Runs before those that are measured: code is compiled, and what is not needed any more is cleaned up.
_BEFORE = 4
_YEAR = 365 * 24 * 3_600
_ORDERS, _PRODUCTS = 100, 10


def measure(folder: Path, rows: int) -> Iterator[Measurement]:
    """The order system, each of its tables with a commit for a hundred ``rows``, and one changed order for each run."""
    commits = max(1, rows // 100)
    new, old = _Shop(folder / "new"), _Shop(folder / "old")
    for table in old.tables:
        add_empty_commits(table, commits)
    costs: list[tuple[Cost, Cost]] = []
    for edition in range(_BEFORE + _TIMES):
        for shop in (old, new):
            shop.change_an_order(edition)
        costs.append((cost_of(old.run), cost_of(new.run)))
    first, *_ = costs
    ours, peer = map(median_cost, zip(*costs[_BEFORE:], strict=True))
    grown = f"after {commits:,} empty commits to each table in a year"
    yield compared("B10", f"the first run with one changed order, {grown}", *first, None, "a new warehouse")
    files = f"{old.log_files:,} files in the logs of its tables, {new.log_files:,} in those of the new one"
    yield compared("B10", f"a run with one changed order, {grown}", ours, peer, 1.3, f"a new warehouse; {files}")


class _Shop:
    """The order system on a warehouse of its own."""

    def __init__(self, warehouse: Path) -> None:
        self.warehouse, self.bundle = warehouse, bundle_folder("order-system")
        generate: Any = data_generator(self.bundle)
        self.order = next(generate.orders(_ORDERS, _PRODUCTS))
        with self._opened() as app:
            app.topic("raw-products").produce(generate.products(_PRODUCTS))
            app.topic("raw-orders").produce(generate.orders(_ORDERS, _PRODUCTS))
            app.run()

    @property
    def tables(self) -> list[Path]:
        """The folders of all tables."""
        return [log.parent for log in self.warehouse.glob("*/*/_delta_log")]

    @property
    def log_files(self) -> int:
        """The number of files that a listing of all logs finds."""
        return sum(1 for table in self.tables for _ in (table / "_delta_log").iterdir())

    def change_an_order(self, edition: int) -> None:
        """Put a changed order on its topic."""
        value = {**self.order["value"], "quantity": 100 + edition}
        self._opened().topic("raw-orders").produce([{**self.order, "value": value}])

    def run(self) -> None:
        """The work of a job: open the application, and run it until it is quiet."""
        self._opened().run()

    def _opened(self) -> Application:
        return Application.open(self.bundle, warehouse=self.warehouse)


def add_empty_commits(table: Path, commits: int) -> None:
    """Write commits without rows, spread over the last year, after those of a table, and a checkpoint."""
    log, newest = table / "_delta_log", DeltaTable(str(table)).version()
    now = time.time()
    for version in range(newest + 1 + commits):
        at, file = now - _YEAR * (1 - version / (newest + 1 + commits)), log / f"{version:020}.json"
        if version > newest:
            about = {"timestamp": int(at * 1_000), "operation": "WRITE", "operationParameters": {"mode": "Append"}}
            file.write_text(json.dumps({"commitInfo": about}) + "\n")
        os.utime(file, (at, at))
    DeltaTable(str(table)).create_checkpoint()

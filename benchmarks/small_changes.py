"""B2: changes of scattered orders, compared with recomputations of all rows and with the usual notebook."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import data, peers
from benchmarks.data import Size
from benchmarks.harness import Cost, Measurement, compared, cost_of, mean_cost
from benchmarks.peers import notebook
from benchmarks.warehouses import Followed, Orders

_MANY, _LARGE = 1_000_000, 10_000_000
# How often the peers are measured, between batches: they take much longer.
_PEERS = 4
_DUCKDB = 0.6


def measure(folder: Path, rows: int) -> Iterator[Measurement]:
    """Change 1 % of the orders in each batch; 0.1 % if there are 10 M or more."""
    size, batches = Size.of(rows), 20 if rows >= _MANY else 4
    count = max(1, rows // (1_000 if rows >= _LARGE else 100))
    orders = Orders.filled(folder / "wh", size)
    orders.load()
    spark = orders.app.spark
    tables = (orders.app.delta.read(spark, name) for name in ("orders", "products"))
    ours: list[Followed] = []
    recomputed: list[tuple[Cost, Cost]] = []
    folds = 0.0
    noted: list[Cost] = []
    with orders.running() as running, notebook(spark, folder / "notebook", *tables) as usual:
        for edition in range(batches + 1):
            changes = data.changed_orders(spark, size, count, edition + 1)
            followed = running.follow(changes, "orders", count, folded=False)
            if edition:
                ours.append(followed)
            else:  # the first compiles code
                running.settle()
                folds = running.fold_seconds
            orders.forget_the_past()
            if edition % max(1, batches // _PEERS) == 0:
                with orders.resting():
                    recompute = _recomputed(orders, folder / "all")
                    by_notebook = usual.follow(changes)
                    usual.forget_the_past()
                if edition:
                    recomputed.append(recompute)
                    noted.append(by_notebook)
        running.settle()
        folds = running.fold_seconds - folds
    orders.expect(rows)
    readable = mean_cost([one.until_readable for one in ours])
    # The end of the run has folded the deferred state.
    folded = Cost(readable.seconds + (folds + orders.state_seconds) / len(ours), readable.cpu)
    what = f"{count:,} of {size} changed"
    goals = (1 / 8, 1 / 4) if rows >= _LARGE else (0.7, 1)
    plain, duckdb, slow = *(mean_cost(list(costs)) for costs in zip(*recomputed, strict=True)), mean_cost(noted)
    mean = f"mean of {len(ours)} batches"
    yield compared("B2a", f"{what}, readable on the channel", readable, plain, goals[0], "recomputing all")
    yield compared("B2a", f"{what}, folded", folded, plain, goals[1], f"recomputing all; {mean}")
    yield compared("B2a", f"{what}, folded, against DuckDB", folded, duckdb, _DUCKDB, f"DuckDB recomputes all; {mean}")
    yield compared("B2b", f"{what}, folded", folded, slow, 1 / 2, "the usual notebook: foreachBatch, join, MERGE")


def _recomputed(orders: Orders, target: Path) -> tuple[Cost, Cost]:
    """The costs of recomputing all rows by Spark, and by DuckDB."""
    tables = orders.place("orders"), orders.place("products")
    costs = []
    for recompute in (partial(peers.recompute, orders.app.spark), peers.recompute_without_spark):
        costs.append(cost_of(partial(recompute, *tables, target)))
        shutil.rmtree(target)
    by_spark, by_duckdb = costs
    return by_spark, by_duckdb

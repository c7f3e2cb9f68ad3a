"""B5: the cost of a small batch as tables grow, beside that of a plain MERGE of as many scattered rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import data, peers
from benchmarks.data import Size
from benchmarks.harness import Cost, Measurement, compared, cost_of, forget_the_past, median_cost
from benchmarks.warehouses import Orders

_TIMES = 5
_SMALLEST = 100_000
_GOAL = 2
_ORDERS, _PRODUCTS, _SUBSCRIBERS = 100, 10, 10


class _AtSize(NamedTuple):
    """Costs at one size of the tables. ``fold``: the seconds of all folds, divided by the number of batches."""

    orders: Cost
    products: Cost
    merged: Cost
    fold: Cost


def measure(folder: Path, rows: int) -> Iterator[Measurement]:
    """Changes of 100 orders, and of 10 products with about 10 subscribers each, on small and on large tables."""
    smallest = min(_SMALLEST, max(rows // 10, 1_000))
    small, large = (_at(folder / str(size), Size(size, max(1, size // _SUBSCRIBERS))) for size in (smallest, rows))
    grown = f"{rows:,} rows against {smallest:,}"
    goal, note = _GOAL, "the same batch on the smaller tables"
    for what, many, few in (
        (f"{_ORDERS} orders changed", large.orders, small.orders),
        (f"{_PRODUCTS} products of {_SUBSCRIBERS} orders each changed", large.products, small.products),
    ):
        yield compared("B5", f"{what}, readable on the channel, {grown}", many, few, goal, note)
    yield compared("B5", f"a batch's share of the folds, {grown}", large.fold, small.fold, None, note)
    what, note = f"a plain MERGE of {_ORDERS} rows, {grown}", "not ours: to compare with"
    yield compared("B5", what, large.merged, small.merged, None, note)


def _at(folder: Path, size: Size) -> _AtSize:
    orders = Orders.filled(folder, size)
    orders.load()
    spark = orders.app.spark
    result = orders.results
    target_folder = folder.with_name(f"{folder.name}-merged")
    target = peers.copy_of(spark, result, target_folder)
    costs: list[tuple[Cost, Cost, Cost]] = []
    with orders.running() as running:
        for edition in range(_TIMES + 1):
            changes = data.changed_orders(spark, size, _ORDERS, edition + 1)
            by_orders = running.follow(changes, "orders", _ORDERS, folded=False)
            prices = data.changed_products(spark, size, _PRODUCTS, edition + 1)
            by_products = running.follow(prices, "products", _PRODUCTS, folded=False)
            rows = spark.createDataFrame(result.join(changes.select("key"), "key", "left_semi").toArrow())
            merged = cost_of(lambda: peers.merge(spark, rows, target))  # noqa: B023  called at once
            orders.forget_the_past()
            forget_the_past(target_folder)
            if edition:  # the first compiles code
                costs.append((by_orders.until_readable, by_products.until_readable, merged))
            else:
                running.settle()
                before = running.fold_seconds
        running.settle()
        folds = running.fold_seconds - before
    # The end of the run has folded the deferred state.
    fold = Cost((folds + orders.state_seconds) / (2 * _TIMES), cpu=0)
    by_order, by_product, merge = map(median_cost, zip(*costs, strict=True))
    return _AtSize(by_order, by_product, merge, fold)

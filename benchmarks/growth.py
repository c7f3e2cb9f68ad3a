"""B5: the cost of a small batch as tables grow, beside that of a plain MERGE of as many scattered rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import data, peers
from benchmarks.data import Size
from benchmarks.harness import Cost, Measurement, compared, cost_of, forget_the_past, median_cost
from benchmarks.warehouses import Followed, Orders

_TIMES = 5
_SMALLEST = 100_000
_GOAL = 2
_ORDERS, _PRODUCTS, _SUBSCRIBERS = 100, 10, 10


@dataclass(frozen=True, slots=True)
class _AtSize:
    """Costs at one size of the tables. ``fold``: the seconds of all folds, divided by the number of batches."""

    orders: list[Followed]
    products: list[Followed]
    merged: list[Cost]
    fold: float = 0.0


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
        at_large, at_small = (median_cost([one.until_readable for one in found]) for found in (many, few))
        yield compared("B5", f"{what}, readable on the channel, {grown}", at_large, at_small, goal, note)
    folds = Cost(large.fold, 0), Cost(small.fold, 0)
    yield compared("B5", f"a batch's share of the folds, {grown}", *folds, None, note)
    merged = median_cost(large.merged), median_cost(small.merged)
    yield compared("B5", f"a plain MERGE of {_ORDERS} rows, {grown}", *merged, None, "not ours: to compare with")


def _at(folder: Path, size: Size) -> _AtSize:
    orders = Orders.filled(folder, size)
    orders.load()
    spark = orders.app.spark
    result = orders.results
    target_folder = folder.with_name(f"{folder.name}-merged")
    target = peers.copy_of(spark, result, target_folder)
    found = _AtSize([], [], [])
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
                found.orders.append(by_orders)
                found.products.append(by_products)
                found.merged.append(merged)
            else:
                running.settle()
                before = running.fold_seconds
        running.settle()
        folds = running.fold_seconds - before
    # The end of the run has folded the deferred state.
    return replace(found, fold=(folds + orders.state_seconds) / (2 * _TIMES))

"""B5: what a small batch costs as tables grow, beside a plain MERGE of as many scattered rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import data, peers
from benchmarks.data import Size
from benchmarks.harness import Cost, Measurement, compared, cost_of, median_cost
from benchmarks.warehouses import Followed, Orders

_TIMES = 5
_SMALLEST = 100_000
_GOAL = 2
_ORDERS, _PRODUCTS, _SUBSCRIBERS = 100, 10, 10


@dataclass(frozen=True, slots=True)
class _AtSize:
    orders: list[Followed]
    products: list[Followed]
    merged: list[Cost]


def measure(folder: Path, rows: int) -> Iterator[Measurement]:
    """100 orders, and 10 products with about 10 subscribers each, at the smallest size and at a larger one."""
    smallest = min(_SMALLEST, max(rows // 10, 1_000))
    small, large = (_at(folder / str(size), Size(size, max(1, size // _SUBSCRIBERS))) for size in (smallest, rows))
    grown = f"{rows:,} rows against {smallest:,}"
    goal, note = _GOAL, "the same batch on the smaller tables"
    for what, many, few in (
        (f"{_ORDERS} orders changed", large.orders, small.orders),
        (f"{_PRODUCTS} products of {_SUBSCRIBERS} orders each changed", large.products, small.products),
    ):
        at_large, at_small = _medians(many), _medians(few)
        yield compared("B5", f"{what}, readable on the channel, {grown}", at_large[0], at_small[0], goal, note)
        yield compared("B5", f"{what}, folded, {grown}", at_large[1], at_small[1], None, note)
    merged = median_cost(large.merged), median_cost(small.merged)
    yield compared("B5", f"a plain MERGE of {_ORDERS} rows, {grown}", *merged, None, "not ours: to compare with")


def _at(folder: Path, size: Size) -> _AtSize:
    orders = Orders.filled(folder, size)
    orders.load()
    spark = orders.app.spark
    result = orders.results
    target = peers.copy_of(spark, result, folder.with_name(f"{folder.name}-merged"))
    found = _AtSize([], [], [])
    with orders.running() as running:
        for edition in range(_TIMES + 1):
            changes = data.changed_orders(spark, size, _ORDERS, edition + 1)
            by_orders = running.follow(changes, "orders", _ORDERS)
            prices = data.changed_products(spark, size, _PRODUCTS, edition + 1)
            by_products = running.follow(prices, "products", _PRODUCTS)
            rows = spark.createDataFrame(result.join(changes.select("key"), "key", "left_semi").toArrow())
            merged = cost_of(lambda: peers.merge(spark, rows, target))  # noqa: B023  called at once
            if edition:  # the first compiles code
                found.orders.append(by_orders)
                found.products.append(by_products)
                found.merged.append(merged)
    return found


def _medians(followed: list[Followed]) -> tuple[Cost, Cost]:
    """Until readable, and until folded."""
    return median_cost([one.until_readable for one in followed]), median_cost([one.until_folded for one in followed])

"""B4: a change of one order while the stream runs, compared with a lone MERGE of one row in a foreachBatch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

from benchmarks import data
from benchmarks.data import Size
from benchmarks.harness import Cost, Measurement, compared, mean_cost
from benchmarks.peers import lone_merge
from benchmarks.warehouses import Orders

_WARM = 5
_MANY = 1_000_000


def measure(folder: Path, rows: int) -> Iterator[Measurement]:
    """The time until a change is readable on the channel, and folded. The join and the peer take turns."""
    size, times = Size.of(rows), 100 if rows >= _MANY else 10
    orders = Orders.filled(folder / "wh", size)
    orders.load()
    spark = orders.app.spark
    result = orders.results
    ours: list[Cost] = []
    peer: list[Cost] = []
    with orders.running() as running, lone_merge(spark, folder / "peer", result) as lone:
        for edition in range(times + _WARM):
            if edition == _WARM:
                running.settle()
                before = running.fold_seconds
            changes = data.changed_orders(spark, size, 1, edition + 1)
            ours.append(running.follow(changes, "orders", 1, folded=False).until_readable)
            peer.append(lone.follow(result.join(changes.select("key"), "key", "left_semi").select(*result.columns)))
        running.settle()
        folds = (running.fold_seconds - before) / times
    what = f"one order of {size} changed, readable on the channel"
    ours, peer = ours[_WARM:], peer[_WARM:]
    against = f"a lone MERGE of one row, {times} times each"
    for name, quantile, goal in (("p50", median, 0.8), ("p90", _p90, 1.2)):
        mine, theirs = (Cost(quantile([one.seconds for one in those]), mean_cost(those).cpu) for those in (ours, peer))
        yield compared("B4", f"{what}, {name}", mine, theirs, goal, against)
    folded = folds + mean_cost(ours).seconds
    yield Measurement(f"one order of {size} changed, folded, mean", round(folded, 3), benchmark="B4", unit="s")


def _p90(values: list[float]) -> float:
    return quantiles(values, n=10, method="inclusive")[-1]

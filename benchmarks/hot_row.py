"""B3: a change of one right row with many subscribers, compared with a lone MERGE of as many prepared rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks import data, peers
from benchmarks.data import Size
from benchmarks.harness import Cost, Measurement, compared, cost_of, mean_cost
from benchmarks.warehouses import Followed, Orders

_TIMES = 5


def measure(folder: Path, rows: int) -> Iterator[Measurement]:
    """Change the price of one product, to which a tenth of all orders refers."""
    size = Size.of(rows, hot=True)
    orders = Orders.filled(folder / "wh", size)
    orders.load()
    spark = orders.app.spark
    target = peers.copy_of(spark, orders.results, folder / "result", feed=True)  # the result has one too
    ours: list[Followed] = []
    merged: list[Cost] = []
    with orders.running() as running:
        for edition in range(_TIMES + 1):
            followed = running.follow(data.hot_product(spark, edition + 1), "products", 1)
            prepared = folder / f"prepared-{edition}"
            product = data.hot_product(spark, edition + 1).select("value").first()
            found = orders.results.where("right = '{}'".format(product["value"] if product else ""))
            found.write.format("delta").save(str(prepared))
            rows_at_hand = spark.read.format("delta").load(str(prepared))
            merge = cost_of(lambda: peers.merge(spark, rows_at_hand, target))  # noqa: B023  called at once
            if edition:  # the first compiles code
                ours.append(followed)
                merged.append(merge)
    subscribers = rows_at_hand.count()
    if subscribers < rows // 10:
        msg = f"{subscribers} results have the new price, of at least {rows // 10}"
        raise RuntimeError(msg)
    readable, folded = (mean_cost([getattr(one, name) for one in ours]) for name in ("until_readable", "until_folded"))
    # The end of the run has folded the deferred state.
    folded = replace(folded, seconds=folded.seconds + orders.state_seconds / (_TIMES + 1))
    what, alone = f"one product of {subscribers:,} among {size} changed", mean_cost(merged)
    yield compared("B3", f"{what}, readable on the channel", readable, alone, 1, "a lone MERGE of the rows, prepared")
    yield compared("B3", f"{what}, folded", folded, alone, 2, "a lone MERGE of the rows, prepared")

"""The order enrichment of ``make demo``, stage by stage: produce, ingest agent, join, enrich agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.harness import Measurement, cost_of
from kaspr_delta import Application
from kaspr_delta.cli.demo import bundle_folder, data_generator

_OUTCOMES = ("orders_products_join", "topic__enriched_orders")


def measure(folder: Path, rows: int) -> Iterator[Measurement]:
    """Orders per second of every stage, each run alone on all rows of the stage before it: a tenth of the rows.

    Raises RuntimeError if the outcome is not complete: a fast wrong answer is no measurement.
    """
    orders, products = rows // 10, max(10, rows // 1_000)
    bundle = bundle_folder("order-system")
    data = data_generator(bundle)
    app = Application.open(bundle, warehouse=folder / "wh")
    app.topic("raw-products").produce(data.products(products))
    app.run()  # products first, so that the measured run of the join is its first load

    records = list(data.orders(orders, products))
    stages: dict[str, Callable[[], object]] = {"produce raw-orders": partial(app.topic("raw-orders").produce, records)}
    for resource in ("agent/ingest-orders", "join/orders-products-join", "agent/process-enriched-orders"):
        stages[resource] = partial(app.run, only=[resource])
    for name, stage in stages.items():
        yield Measurement(name, orders / cost_of(stage).seconds, benchmark="example")

    joined, enriched = (app.sql(f"SELECT count(*) AS n FROM {t}").first() for t in _OUTCOMES)  # noqa: S608  own names
    if joined is None or enriched is None or not joined["n"] == enriched["n"] == orders:
        msg = f"{orders} orders went in, {joined} were joined and {enriched} enriched"
        raise RuntimeError(msg)

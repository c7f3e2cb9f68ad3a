"""The order enrichment of ``make demo``, stage by stage: produce, ingest agent, join, enrich agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Measurement, rows_per_second
from kaspr_delta import Application
from kaspr_delta.cli.demo import bundle_folder, data_generator


def measure(warehouse: Path, orders: int, products: int) -> Iterator[Measurement]:
    """Rows per second of every stage, each run alone on all rows of the stage before it.

    Raises RuntimeError if the outcome is not complete: a fast wrong answer is no measurement.
    """
    bundle = bundle_folder("order-system")
    data = data_generator(bundle)
    app = Application.open(bundle, warehouse=warehouse)
    app.topic("raw-products").produce(data.products(products))
    app.run()  # products first, so that the measured run of the join is its first load

    def stage(resource: str) -> float:
        return rows_per_second(orders, lambda: app.run(only=[resource]))

    records = list(data.orders(orders, products))
    produced = rows_per_second(orders, lambda: app.topic("raw-orders").produce(records))
    yield Measurement("produce raw-orders", produced, benchmark="example")
    for resource in ("agent/ingest-orders", "join/orders-products-join", "agent/process-enriched-orders"):
        yield Measurement(resource, stage(resource), benchmark="example")

    joined, enriched = (app.sql(f"SELECT count(*) AS n FROM {t}").first() for t in _OUTCOMES)  # noqa: S608  own names
    if joined is None or enriched is None or not joined["n"] == enriched["n"] == orders:
        msg = f"{orders} orders went in, {joined} were joined and {enriched} enriched"
        raise RuntimeError(msg)


_OUTCOMES = ("orders_products_join", "topic__enriched_orders")

"""The events that a run sends to its listener: finished batches, lag, and resources that have caught up."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.runtime.run_events import BatchDone, CaughtUp, LagSeen, RunEvent
from tests.spark.order_system import join_and_reader

JOIN = "join/orders-products-join"
ORDER: dict[str, Any] = {"order_id": "O1", "product_id": "P1", "quantity": 2}


def test_a_run_reports_batches_lag_and_resources_that_have_caught_up(spark: SparkSession, tmp_path: Path) -> None:
    app = Application.open(join_and_reader(tmp_path), warehouse=tmp_path / "wh", spark=spark)
    app.table("orders").put({"O0": ORDER})
    app.table("products").put({"P1": {"name": "Widget", "price": 1}})
    received: list[RunEvent] = []
    app.run(listener=received.append)
    done = [(str(event.resource), event.report.rows_in) for event in received if isinstance(event, BatchDone)]
    assert (JOIN, 2) in done
    assert {str(event.resource) for event in received if isinstance(event, CaughtUp)} == {str(r) for r in app.plan.runs}

    stop, joined, seen = threading.Event(), threading.Event(), dict[str, int]()

    def listen(event: RunEvent) -> None:
        if stop.is_set():  # a look that was under way tells what it has seen before
            return
        if isinstance(event, LagSeen):
            seen[str(event.resource)] = event.rows
        if isinstance(event, BatchDone) and str(event.resource) == "agent/process-enriched-orders":
            joined.set()
        if joined.is_set() and set(seen) == {str(r) for r in app.plan.runs} and not any(seen.values()):
            stop.set()

    app.table("orders").put({"O1": ORDER})
    patience = threading.Timer(240, stop.set)
    patience.start()
    app.run_continuously(stop, every="500ms", listener=listen)
    patience.cancel()
    assert joined.is_set()
    assert seen == {str(ref): 0 for ref in app.plan.runs}

"""The events that a run sends to its listener: finished batches, lag, and resources that have caught up."""

from __future__ import annotations

import threading
from typing import Any

from kaspr_delta.runtime.run_events import BatchDone, CaughtUp, LagSeen, RunEvent
from tests.conftest import OrderSystem
from tests.limits import set_limits

ORDER: dict[str, Any] = {"order_id": "O1", "product_id": "P1", "quantity": 2}


def test_a_run_reports_batches_lag_and_resources_that_have_caught_up(order_system: OrderSystem) -> None:
    app = order_system()
    app.topic("raw-products").produce([{"key": "P1", "value": {"name": "Widget", "price": 1}}])
    received: list[RunEvent] = []
    app.run(listener=received.append)
    done = [(str(event.resource), event.report.rows_in) for event in received if isinstance(event, BatchDone)]
    assert ("agent/ingest-products", 1) in done
    assert {str(event.resource) for event in received if isinstance(event, CaughtUp)} == {str(r) for r in app.plan.runs}

    stop, joined, seen = threading.Event(), threading.Event(), dict[str, int]()

    def listen(event: RunEvent) -> None:
        if isinstance(event, LagSeen):
            seen[str(event.resource)] = event.rows
        if isinstance(event, BatchDone) and str(event.resource) == "agent/process-enriched-orders":
            joined.set()
        if joined.is_set() and set(seen) == {str(r) for r in app.plan.runs} and not any(seen.values()):
            stop.set()

    app.topic("raw-orders").produce([{"key": "O1", "value": ORDER}])
    patience = threading.Timer(240, stop.set)
    patience.start()
    app.run_continuously(stop, every="500ms", listener=listen)
    patience.cancel()
    assert joined.is_set()
    assert seen == {str(ref): 0 for ref in app.plan.runs}


def test_a_join_reads_a_backlog_in_several_batches(order_system: OrderSystem) -> None:
    app, join = set_limits(order_system(), feed_batch="1b"), "join/orders-products-join"
    app.table("products").put([("P1", {"price": 1})])
    app.table("orders").put([("O", ORDER)])
    app.run(only=[join])
    for number in range(3):
        app.table("orders").put([(f"O{number}", ORDER)])
    received: list[RunEvent] = []
    app.run(only=[join], listener=received.append)
    assert [event.report.rows_in for event in received if isinstance(event, BatchDone)] == [1, 1, 1]
    assert set(app.join("orders-products-join").to_dict()) == {"O", "O0", "O1", "O2"}

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from kaspr_delta.errors import NotFoundError
from kaspr_delta.testing import application
from tests.manifests import manifests

ROOT = Path(__file__).parents[3]


def test_functions_of_all_kinds_of_resources_are_called() -> None:
    with application(ROOT / "bundles" / "order-system") as app:
        product = app.function("join/orders-products-join")
        assert product({"product_id": "P1"}) == "P1"
        enrich = app.function("agent/process-enriched-orders", "enrich")
        order = enrich({"left": {"order_id": "O1", "quantity": 3}, "right": {"price": 2}})
        assert order["total"] == 6
        orders: dict[str, object] = {}
        write = app.function("agent/ingest-orders", "write-to-table", {"event": SimpleNamespace(key="O1")})
        write({"quantity": 1}, orders)
        assert orders == {"O1": {"quantity": 1}}
    with application(ROOT / "bundles" / "order-totals") as app:
        names = ("adder", "subtractor")
        add, subtract = (app.function("table/order-totals", name) for name in names)
        value = {"left": {"quantity": 2, "price": 50}, "right": {"discount": 0}}
        assert (add(0, value), subtract(100, value)) == (100, 0)


def test_a_coroutine_is_awaited_and_init_is_run(tmp_path: Path) -> None:
    text = """\
KasprApp/shop: {{}}
KasprAgent/bill:
  input: {{topic: {{name: orders}}}}
  processors:
    pipeline: [total]
    init: {{python: "rate = 2"}}
    operations:
      - name: total
        map:
          python: |
            async def total(value):
                return value * rate
"""
    (tmp_path / "app.yaml").write_text(manifests("shop", text.format()))
    with application(tmp_path) as app:
        assert app.function("agent/bill")(4) == 8


def test_a_name_that_does_not_exist_is_refused() -> None:
    with application(ROOT / "bundles" / "order-system") as app:
        with pytest.raises(NotFoundError, match="did you mean 'agent/ingest-orders'"):
            app.function("agent/ingest-order")
        with pytest.raises(NotFoundError, match="no function of agent/process-enriched-orders 'enrch'"):
            app.function("agent/process-enriched-orders", "enrch")

"""The order-enrichment application as its users run it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.runtime.report import RunReport
from kaspr_delta.storage.layout import PROGRESS
from kaspr_delta.storage.plan_tables import tables_of
from tests.conftest import ROOT, OrderSystem

ORDER: dict[str, Any] = {"order_id": "O1", "product_id": "P100", "quantity": 3}


@dataclass
class Shop:
    """The order system after one run: three orders of one product came as raw records."""

    open: OrderSystem
    app: Application
    report: RunReport


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    folder = tmp_path_factory.mktemp("shop")
    open_again = partial(Application.open, ROOT / "bundles" / "order-system", warehouse=folder, spark=spark)
    app = open_again()
    app.topic("raw-products").produce([{"key": "P100", "value": {"name": "Widget", "price": 9.5}}])
    orders = {"O1": ORDER, "O2": {**ORDER, "order_id": "O2", "quantity": 4}, "O3": {**ORDER, "quantity": 0}}
    app.topic("raw-orders").produce([{"key": key, "value": value, "timestamp": 1_000} for key, value in orders.items()])
    return Shop(open_again, app, app.run())


def test_s0_1_s0_2_s0_10_raw_orders_reach_the_enriched_topic_with_their_product(shop: Shop) -> None:
    assert shop.app.table("orders").get("O1") == ORDER
    records = {record["value"]["quantity"]: record for record in shop.app.topic("enriched-orders").records()}
    record = records[3]
    assert record["key"] == "O1"
    enriched_at = record["value"].pop("enriched_at")
    assert record["value"] == {
        "order_id": "O1",
        "product_id": "P100",
        "quantity": 3,
        "product_name": "Widget",
        "unit_price": 9.5,
        "total": 28.5,
    }
    assert enriched_at.endswith("+00:00")
    assert datetime.fromisoformat(enriched_at).utcoffset() == timedelta(0)
    assert shop.report.resources["join/orders-products-join"].rows_out == len(records) == 3
    assert shop.report.dead_letters == 0


def test_a_restart_keeps_the_work_of_a_run_and_does_not_repeat_it(shop: Shop) -> None:
    before = shop.app.topic("enriched-orders").records()
    again = shop.open()
    assert not again.run().resources
    assert again.topic("enriched-orders").records() == before

    again.topic("raw-orders").produce([{"key": "O3", "value": None}])
    again.run()
    assert set(again.table("orders").to_dict()) == {"O1", "O2"}
    assert set(again.join("orders-products-join").to_dict()) == {"O1", "O2"}
    assert [record["value"] for record in again.channel("orders-products-joined").records()][-1] is None
    assert again.topic("enriched-orders").records() == before


def test_s0_12_a_join_has_the_channel_name_of_its_manifest(shop: Shop) -> None:
    joins = [(join.name, join.channel) for join in shop.app.plan.joins]
    assert joins == [("orders-products-join", "orders-products-joined")]


def test_joined_tables_are_typed_in_dataframes_and_variants_in_sql(shop: Shop) -> None:
    app = shop.app
    df = app.join("orders-products-join").df
    rows = df.where("left.quantity > 3").select("key", "left.quantity", "right.price").collect()
    assert [row.asDict() for row in rows] == [{"key": "O2", "quantity": 4, "price": 9.5}]
    total = app.sql(
        "SELECT sum(variant_get(right, '$.price', 'double') * variant_get(left, '$.quantity', 'int')) AS total"
        " FROM v_orders_products_join"
    ).collect()
    assert total[0]["total"] == 9.5 * 7
    assert app.table("products").df.select("value.name").collect()[0]["name"] == "Widget"
    emitted = app.channel("orders-products-joined").df.where("kind = 'value'").select("key", "right.price").collect()
    assert sorted(map(tuple, emitted)) == [("O1", 9.5), ("O2", 9.5), ("O3", 9.5)]
    assert sorted(row[0] for row in app.topic("enriched-orders").df.select("value.total").collect()) == [0, 28.5, 38.0]

    app.table("orders").put({"O4": {**ORDER, "quantity": "a dozen"}})
    assert app.table("orders").df.select("value.quantity").dtypes == [("quantity", "variant")]
    quantities = app.table("orders").df.selectExpr("value.quantity::string AS quantity").collect()
    assert {row["quantity"] for row in quantities} >= {"3", "4", "a dozen"}


@pytest.mark.slow
def test_a_batch_makes_the_documented_commits_and_touches_only_related_rows(order_system: OrderSystem) -> None:
    """The commits of a batch that docs/cost.md states for joins and agents."""
    app = order_system()
    app.table("products").put({"P100": {"name": "Widget", "price": 9.5}, "P2": {"name": "Other", "price": 1}})
    app.table("orders").put({"O1": ORDER, "O2": {**ORDER, "order_id": "O2"}, "O3": {**ORDER, "product_id": "P2"}})
    app.run()
    names = [layout_name for _, layout_name, _ in tables_of(app.plan)] + [PROGRESS]
    before = {name: app.delta.newest(app.spark, name).version for name in names}
    app.table("products").put({"P2": {"name": "Other", "price": 2}})
    report = app.run()
    commits = {name: app.delta.newest(app.spark, name).version - before[name] for name in names}
    of_the_join = {
        "channel__orders_products_joined": 1,
        "orders_products_join": 1,
        "subscriptions__orders_products_join": 1,
    }
    of_the_agent = {"log__process_enriched_orders": 1, "topic__enriched_orders": 1}
    assert {name: count for name, count in commits.items() if count} == {
        **of_the_join,
        **of_the_agent,
        "products": 1,  # by put
        PROGRESS: 2,
    }
    assert {name: did.rows_out for name, did in report.resources.items()} == {
        "join/orders-products-join": 1,
        "agent/process-enriched-orders": 1,
    }

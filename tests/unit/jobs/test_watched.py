from __future__ import annotations

import pytest

from kaspr_delta.errors import UsageError
from kaspr_delta.jobs import Storage
from kaspr_delta.jobs.watched import watched_tables
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.spec.loader import load_text
from tests.manifests import manifests

STORAGE = Storage("shop", "main", "shop")


def plan(resources: dict[str, str]) -> Plan:
    """The plan of an application, from specs by kind and name."""
    text = "".join(f"{name}: {spec}\n" for name, spec in resources.items())
    ((built,), _) = build_plans(load_text(manifests("shop", text), "m.yaml"))
    return built


def test_tables_and_topics_that_others_write_start_the_job() -> None:
    shop = plan(
        {
            "KasprTable/orders": "{source: {table: sales.orders, key: [id]}}",
            "KasprTable/places": "{source: {table: lake.geo.places, key: [id]}}",
            "KasprTable/products": "{}",
            "KasprTable/files": "{source: {table: /mnt/files, key: [id]}}",
            "KasprJoin/priced": "{leftTable: orders, rightTable: products, on: key}",
            "KasprJoin/placed": "{leftTable: files, rightTable: places, on: key}",
            "KasprTable/counted": "{from: {topic: clicks}, count: {}}",
            "KasprTable/over-counted": "{from: {table: counted}, count: {}}",
            "KasprTable/recounted": "{from: {join: priced}, count: {}}",
        }
    )
    assert watched_tables(shop, STORAGE) == (
        "lake.geo.places",
        "main.sales.orders",
        "main.shop.products",
        "main.shop.topic__clicks",
    )


def test_records_from_elsewhere_update_no_table() -> None:
    bound = "{topics: {raw: {kafka: {bootstrapServers: 'localhost:9092', topic: raw}, direction: input}}}"
    shop = plan({"KasprApp/shop": bound, "KasprTable/t": "{from: {topic: raw}, count: {}}"})
    with pytest.raises(UsageError, match="raw has records from elsewhere"):
        watched_tables(shop, STORAGE)


def test_an_application_that_reads_only_its_own_tables_has_nothing_to_watch() -> None:
    with pytest.raises(UsageError, match="shop reads no table that others write"):
        watched_tables(plan({"KasprTable/orders": "{}"}), STORAGE)

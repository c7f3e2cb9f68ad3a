from __future__ import annotations

import pytest

from kaspr_delta.errors import UsageError
from kaspr_delta.jobs import Storage
from kaspr_delta.jobs.watched import watched_tables
from tests.manifests import plan_of

STORAGE = Storage("shop", "main", "shop")


SHOP = """
KasprTable/orders: {source: {table: lake.sales.orders, key: [id]}}
KasprTable/places: {source: {table: lake.geo.places, key: [id]}}
KasprTable/products: {}
KasprTable/files: {source: {table: lake.geo.files, key: [id]}}
KasprJoin/priced: {leftTable: orders, rightTable: products, on: key}
KasprJoin/placed: {leftTable: files, rightTable: places, on: key}
KasprTable/counted: {from: {topic: clicks}, count: {}}
KasprTable/over-counted: {from: {table: counted}, count: {}}
KasprTable/recounted: {from: {join: priced}, count: {}}
"""
BOUND = """
KasprApp/shop: {topics: {raw: {kafka: {bootstrapServers: 'localhost:9092', topic: raw}, direction: input}}}
KasprTable/t: {from: {topic: raw}, count: {}}
"""


def test_tables_and_topics_that_others_write_start_the_job() -> None:
    assert watched_tables(plan_of("shop", SHOP), STORAGE) == (
        "lake.geo.files",
        "lake.geo.places",
        "lake.sales.orders",
        "main.shop.products",
        "main.shop.topic__clicks",
    )


def test_records_from_elsewhere_update_no_table() -> None:
    with pytest.raises(UsageError, match="raw has records from elsewhere"):
        watched_tables(plan_of("shop", BOUND), STORAGE)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("/mnt/files", "these are paths: /mnt/files. Leave it out, and give a 'schedule'"),
        ("geo.files", "needs the catalog of the source 'geo.files' in its name"),
    ],
)
def test_sources_without_a_full_name_announce_no_update(source: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        watched_tables(plan_of("shop", SHOP.replace("lake.geo.files", source)), STORAGE)


def test_an_application_that_reads_only_its_own_tables_has_nothing_to_watch() -> None:
    with pytest.raises(UsageError, match="shop reads no table that others write"):
        watched_tables(plan_of("shop", "KasprTable/orders: {}"), STORAGE)

"""Columns are matched by name: new or moved ones change no result by themselves. A widened one makes a join wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from tests.continuous import running, wait_until
from tests.manifests import opened
from tests.spark.others import TableOfOthers

MANIFESTS = """
KasprApp/named: {{}}
KasprTable/orders: {{schema: "{orders}", key: id}}
KasprTable/products: {{source: {{table: "{folder}/products", key: [id]}}}}
KasprJoin/priced: {{leftTable: orders, rightTable: products, column: product, type: left}}
KasprJoin/paired: {{leftTable: products, rightTable: products, on: key, type: outer}}
KasprTable/per-maker:
  from: {{table: products}}
  groupBy: {{python: "def maker(value): return value['made']['maker']"}}
  count: {{}}
"""
ORDERS = "id STRING, product INT, place STRUCT<country STRING, zip INT>"
REORDERED = "place STRUCT<zip INT, country STRING>, product INT, id STRING"


class Shop:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.products = TableOfOthers(spark, folder / "products")
        self.products.make("id INT, name STRING, made STRUCT<maker: STRING, year: INT>")
        self.products.run("INSERT INTO {} VALUES (1, 'Widget', struct('A', 2020)), (2, 'Gadget', struct('B', 2021))")

    def open(self, orders: str = ORDERS) -> Application:
        return opened(self.spark, self.folder, "named", MANIFESTS.format(folder=self.folder, orders=orders))


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    shop = Shop(spark, tmp_path)
    app = shop.open()
    app.table("orders").put({"O1": {"product": 1, "place": {"country": "DE", "zip": 1}}, "O2": {"product": 2}})
    app.run()
    return shop


def names(app: Application) -> dict[Any, Any]:
    return {key: row["right"] and row["right"]["name"] for key, row in app.join("priced").rows()}


CHANGES = (
    "ADD COLUMN colour STRING FIRST",
    "ADD COLUMN weight INT AFTER id",
    "ADD COLUMN made.city STRING FIRST",
    "ADD COLUMN made.street STRING AFTER maker",
    "ALTER COLUMN name FIRST",
    "ALTER COLUMN made.year FIRST",
    "SET TBLPROPERTIES (delta.columnMapping.mode = 'name')",
    "ADD COLUMN made.`two words` STRING",
    "ADD COLUMN `net weight` INT",
)


@pytest.mark.slow
def test_added_and_moved_columns_of_a_table_and_of_a_manifest_change_no_row(shop: Shop) -> None:
    for change in CHANGES:
        shop.products.alter(change)
    # As after a restart: the catalog of the session is gone, the folders stay.
    shop.spark.sql(f"DROP SCHEMA {shop.open().delta.namespace.schema} CASCADE")
    app = shop.open(REORDERED)
    assert not app.plan.waiting
    assert names(app) == {"O1": "Widget", "O2": "Gadget"}
    emitted = len(app.channel("priced-channel").records())
    # Every row is touched, and one of them changes.
    app.sql("UPDATE orders SET product = product")
    shop.products.run("UPDATE {} SET name = concat(name, '')")
    shop.products.run("UPDATE {} SET name = 'Better' WHERE id = 1")
    app.run()
    new = app.channel("priced-channel").records()[emitted:]
    assert [(record["key"], record["value"]["right"]["name"]) for record in new] == [("O1", "Better")]
    assert names(app) == {"O1": "Better", "O2": "Gadget"}
    assert {row["right"]["name"] for _, row in app.join("paired").rows()} == {"Better", "Gadget"}
    assert app.table("per-maker").to_dict() == {"A": 1, "B": 1}
    shop.products.run("UPDATE {} SET made.maker = 'B', made.city = 'Berlin', colour = 'red' WHERE id = 1")
    app.table("orders").put({"O1": {"product": 1, "place": {"country": "FR", "zip": 2}}})
    app.run()
    assert app.table("per-maker").to_dict() == {"A": 0, "B": 2}
    joined = app.join("priced").to_dict()["O1"]
    assert joined["left"]["place"] == {"country": "FR", "zip": 2}
    assert joined["right"] == {
        "id": 1,
        "name": "Better",
        "made": {"maker": "B", "year": 2020, "city": "Berlin", "street": None, "two words": None},
        "colour": "red",
        "weight": None,
        "net weight": None,
    }


@pytest.mark.slow
def test_a_column_added_in_front_stops_no_run_and_is_read_by_later_runs(shop: Shop) -> None:
    app = shop.open()
    with running(app) as failures:
        shop.products.alter("ADD COLUMN colour STRING FIRST")
        shop.products.run("UPDATE {} SET name = 'Better' WHERE id = 1")
        wait_until(lambda: names(app)["O1"] == "Better", failures)
    assert not failures, failures
    app = shop.open()
    shop.products.run("UPDATE {} SET colour = 'red' WHERE id = 2")
    app.run()
    assert app.join("priced").to_dict()["O2"]["right"]["colour"] == "red"

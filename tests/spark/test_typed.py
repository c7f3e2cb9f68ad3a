"""Tables with columns of their own: declared ones, and Delta tables that others write."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from string import Template
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application, UsageError
from kaspr_delta.control.source_tables import known
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.warehouse.sql_warehouse import SqlWarehouse
from kaspr_delta.web.local_copy import LocalCopy
from kaspr_delta.web.store import LocalStore
from kaspr_delta.web.warehouse_store import WarehouseStore
from tests.documented import ROOT, blocks
from tests.folders import delta_rs
from tests.spark.channels import values_of
from tests.spark.others import TableOfOthers
from tests.spark_line import IS_SPARK_4_0
from tests.sql_on_spark import SqlOnSpark

pytestmark = pytest.mark.further

MANIFESTS = Template((Path(__file__).parent / "applications" / "typed.yaml").read_text())
COLUMNS = "id BIGINT, name STRING, made DATE, bits BINARY"
TEN = datetime(2024, 5, 1, 10, tzinfo=timezone.utc)
SHOP = {"country": "DE", "zip": 10115}
ORDER = {"product": 1, "price": "2.50", "at": "2024-05-01T12:00:00+02:00", "tags": {"customer": "C1"}, "shop": SHOP}
O1 = {"id": "O1", "product": 1, "price": Decimal("2.50"), "at": TEN, "tags": {"customer": "C1"}, "shop": SHOP}
WIDGET = {"id": 1, "name": "Widget", "made": date(2024, 1, 1), "bits": b"\x00\xff"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("typed")


@pytest.fixture(scope="module")
def others(spark: SparkSession, folder: Path) -> TableOfOthers:
    return TableOfOthers(spark, folder / "products")


def opened(spark: SparkSession, folder: Path, before: str = "", after: str = "") -> Application:
    """The application, with a text instead of another one in its manifests."""
    manifests = folder / "typed.yaml"
    manifests.write_text(MANIFESTS.substitute(FOLDER=folder).replace(before, after))
    return Application.open(manifests, warehouse=folder / "warehouse", spark=spark)


@pytest.fixture(scope="module")
def app(spark: SparkSession, folder: Path, others: TableOfOthers) -> Application:
    """The application after one run. Its tables and its topic were filled before it."""
    others.make(COLUMNS)
    others.run("INSERT INTO {} VALUES (1, 'Widget', DATE'2024-01-01', X'00FF'), (2, 'Gadget', NULL, NULL)")
    app = opened(spark, folder)
    app.table("customers").put({"C1": {"name": "Ann", "balance": 1.5}})
    app.table("notes").put({"O1": {"text": "fragile"}, "O9": {"text": "lost"}, "O2": {}})
    app.table("places").put({("DE", 10115): {"name": "Mitte"}})
    orders: list[Any] = [{"id": "O1", **ORDER}, {"id": "O2", **ORDER, "product": 2, "price": 1, "shop": None}]
    wrong = [{"id": "O3", "product": "two"}, {"id": "O4", "colour": "red"}, {"id": "O5", "product": -1}]
    app.topic("raw-orders").produce([{"value": value} for value in (*orders, *wrong)])
    app.run()
    return app


def results(app: Application, join: str) -> dict[Any, Any]:
    return app.join(join).to_dict()


def test_functions_see_dictionaries_whose_values_keep_their_types(app: Application) -> None:
    assert app.table("orders").get("O1") == O1
    assert app.table("products").to_dict() == {1: WIDGET, 2: {"id": 2, "name": "Gadget", "made": None, "bits": None}}
    (stored, second) = (record["value"] for record in app.topic("stored").records())
    assert stored == {
        "at": "datetime.datetime(2024, 5, 1, 10, 0, tzinfo=datetime.timezone.utc)",
        "made": "datetime.date(2024, 1, 1)",
    }
    assert second["made"] == "None"


def test_a_row_that_cannot_be_written_is_a_dead_letter(app: Application) -> None:
    details = {letter["value"][7:9]: letter["detail"] for letter in app.dead_letters("agent/ingest")}
    assert "product is a number, and 'two' is none" in details.pop("O3")
    assert "the row has no column colour" in details.pop("O4")
    assert "a Delta table that others write" in details.pop("O5")
    assert not details


def test_a_join_stays_typed_from_end_to_end(app: Application) -> None:
    result = results(app, "orders-products")
    assert result["O1"] == {"left": O1, "right": WIDGET}
    types = dict(app.join("orders-products").df.dtypes)
    assert types["left"] == (
        "struct<id:string,product:int,price:decimal(10,2),at:timestamp,tags:map<string,string>,"
        "shop:struct<country:string,zip:int>>"
    )
    assert types["right"] == "struct<id:bigint,name:string,made:date,bits:binary>"
    stored = app.sql("SELECT key, left.price, right.name FROM orders_products ORDER BY key").collect()
    assert [tuple(row) for row in stored] == [('"O1"', Decimal("2.50"), "Widget"), ('"O2"', Decimal("1.00"), "Gadget")]


def test_a_foreign_key_of_several_columns_finds_a_key_of_several_columns(app: Application) -> None:
    place = {**SHOP, "name": "Mitte"}
    assert results(app, "orders-places") == {"O1": {"left": O1, "right": place}}
    assert app.table("places").to_dict() == {("DE", 10115): place}


def test_a_join_of_a_typed_and_a_json_side_keeps_the_types_of_each(app: Application) -> None:
    ann = {"name": "Ann", "balance": 1.5}
    assert results(app, "enriched") == {"O1": {"left": {"left": O1, "right": WIDGET}, "right": ann}}
    assert values_of(app, "shown") == [["2.50", ann]]


@pytest.mark.skipif(IS_SPARK_4_0, reason="open Spark 4.0 has no operator `:`")
def test_the_documented_query_reads_a_typed_side_as_struct_and_a_json_side_as_variant(app: Application) -> None:
    queries = [block.text for block in blocks(ROOT / "docs" / "typed-tables.md", "sql")]
    (query,) = (query for query in queries if "v_enriched" in query)
    assert [tuple(row) for row in app.sql(query).collect()] == [(Decimal("2.50"), "Ann")]


def test_select_makes_the_columns_of_a_result_and_a_failure_leaves_no_row(app: Application) -> None:
    assert results(app, "noted") == {
        "O1": {"price": Decimal("5.000"), "note": "fragile"},
        "O9": {"price": None, "note": "lost"},
    }
    assert dict(app.join("noted").df.dtypes)["price"] == "decimal(12,3)"
    letters = app.dead_letters("join/noted")  # one for the note alone, and one for the note with its order
    assert [(letter["key"], letter["reason"]) for letter in letters] == [('"O2"', "select failed")] * 2
    assert all("KeyError: 'text'" in letter["detail"] for letter in letters)
    emitted = {record["key"]: record["value"] for record in app.channel("noted-channel").records()}
    assert emitted["O2"]["right"] == {}  # the channel has the pair nevertheless


@pytest.mark.slow
def test_a_comparison_after_another_select_counts_rows_whose_columns_differ(
    spark: SparkSession, app: Application, folder: Path
) -> None:
    """The current view, which shows the new result if that is wanted, has the columns of the result."""
    compares = '"on": key\n  onChange: side-by-side\n  type: outer'
    assert not opened(spark, folder, '"on": key\n  type: outer', compares).plan.waiting
    manifests = MANIFESTS.substitute(FOLDER=folder).replace('"on": key\n  type: outer', compares)
    (folder / "typed.yaml").write_text(manifests.replace('order["price"] * 2', 'order["price"] * 3'))
    changed = Application.open(folder / "typed.yaml", warehouse=folder / "warehouse", spark=spark)
    compared = changed.compare("join/noted")
    assert (compared.added, compared.removed, compared.changed, compared.equal) == (0, 0, 1, 1)
    (row,) = changed.sql("SELECT key, before, after FROM differences__noted").collect()
    assert [row["key"], *(json.loads(row[name])["price"] for name in ("before", "after"))] == ['"O1"', 5.0, 7.5]
    current = "SELECT price FROM current__noted WHERE key = '\"O1\"'"
    prices = [changed.sql(current).collect()[0]["price"]]
    changed.show("join/noted", "new")
    prices.append(changed.sql(current).collect()[0]["price"])
    assert prices == [Decimal("5.000"), Decimal("7.500")]
    assert changed.sql("SELECT * FROM current__noted").schema.fieldNames() == changed.join("noted").df.columns
    opened(spark, folder)
    assert app.delta.newest(spark, "noted").version == changed.delta.newest(spark, "noted").version


def test_local_copies_and_sql_warehouses_read_tables_as_functions_do(spark: SparkSession, app: Application) -> None:
    client: Any = SqlOnSpark(spark)
    delta = delta_rs(app.delta.namespace)
    local, warehouse = LocalStore(delta), WarehouseStore(SqlWarehouse(client, "w1", app.delta.namespace))
    for name in ("orders", "products", "places"):
        rows = app.table(name).to_dict()
        assert rows
        known_by = [known(app.declared.known_table(name), store.columns) for store in (local, warehouse)]
        assert known_by == [app.plan.known_table(name)] * 2
        text = app.table(name).table.text
        copy = LocalCopy(delta, app.plan.known_table(name))
        copy.refresh()
        for reader in (copy, warehouse.reader(app.plan.known_table(name))):
            found = reader.scan(None)
            assert {text.key_object(str(key)): text.value_object(value) for key, value in found.items()} == rows
            assert reader.fetch(list(found)) == found


def test_a_source_table_is_neither_written_nor_purged(app: Application, folder: Path) -> None:
    with pytest.raises(UsageError, match="'products' stands for a Delta table that others write"):
        app.table("products").put({1: {"name": "mine"}})
    app.delete("table", "products", purge=True)
    assert (folder / "products" / "_delta_log").exists()


def test_changes_and_added_columns_of_a_source_table_are_followed(
    spark: SparkSession, app: Application, folder: Path, others: TableOfOthers
) -> None:
    others.run("UPDATE {} SET name = 'Better' WHERE id = 1")
    others.run("ALTER TABLE {} ADD COLUMNS (colour STRING)")
    app = opened(spark, folder)
    app.run(only=["join/orders-products"])
    before = results(app, "orders-products")
    assert before["O1"]["right"] == {**WIDGET, "name": "Better", "colour": None}
    others.run("UPDATE {} SET colour = 'red' WHERE id = 2")
    others.run("INSERT INTO {} VALUES (2, 'Twin', NULL, NULL, NULL), (NULL, 'Nobody', NULL, NULL, NULL)")
    app.run(only=["join/orders-products"])
    after = results(app, "orders-products")
    assert after["O1"] == before["O1"]
    assert after["O2"]["right"]["name"] == "Twin"  # of two rows without a time the greater one
    reasons = sorted(letter["reason"] for letter in app.dead_letters("join/orders-products"))
    assert reasons == ["duplicate key", "null key"]


@pytest.mark.slow
def test_resources_wait_with_a_remedy_if_a_source_table_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    others = TableOfOthers(spark, tmp_path / "products")
    waiting = dict(opened(spark, tmp_path).plan.waiting)
    there = ResourceRef("table", "products")
    assert "is not there" in waiting[there]
    assert waiting[ResourceRef("join", "enriched")] == "waits for table/products"
    assert ResourceRef("join", "orders-places") not in waiting
    others.make(COLUMNS, feed=False)
    statement = f"ALTER TABLE {others} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    others.alter("SET TBLPROPERTIES (delta.enableRowTracking = true)")  # not enough here
    assert statement in dict(opened(spark, tmp_path).plan.waiting)[there]
    spark.sql(statement)
    app = opened(spark, tmp_path)
    assert not app.plan.waiting
    others.run("INSERT INTO {} VALUES (1, 'Widget', NULL, NULL)")
    app.table("orders").put({"O1": {"product": 1}})
    app.run(only=["join/orders-products"])
    others.run("REPLACE TABLE {} (id BIGINT, name INT) USING DELTA TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    app = opened(spark, tmp_path)
    reason = dict(app.plan.waiting)[ResourceRef("join", "orders-products")]
    assert "column 'right.name' was STRING and is INT" in reason
    assert "column 'right.made' is gone" in reason
    assert "kaspr-delta delete join orders-products --purge" in reason
    for join in ("enriched", "orders-products"):
        app.delete("join", join, purge=True)
    app = opened(spark, tmp_path)
    assert not app.plan.waiting

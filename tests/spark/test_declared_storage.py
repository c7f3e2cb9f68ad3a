"""Tables of an application in a catalog: what manifests declare for them, and a schema for internal ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application, UsageError
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.names import INTERNAL_SCHEMA_MARK
from kaspr_delta.storage.layout import SYSTEM
from kaspr_delta.storage.spark.description import Description
from kaspr_delta.storage.tables import Tables
from tests.manifests import opened

pytestmark = pytest.mark.slow  # statements and decisions have tests without Spark

MANIFESTS = """
KasprTable/orders:
  description: {of_orders}
  storage: {{clusterBy: [{by}], properties: {{a.b: {value}}}}}
KasprTable/products: {{storage: {{primaryKey: {primary_key}, tags: {tags}}}}}
KasprTable/stock:
  schema: "sku STRING COMMENT 'Of the {of_stock}', amount INT COMMENT 'In boxes', place STRUCT<shelf: INT>"
  key: sku
KasprTable/shown: {{source: {{table: {view}, key: [id]}}}}
KasprJoin/priced:
  description: Orders with their products.
  leftTable: orders
  rightTable: products
  column: product
  storage: {{clusterBy: [key], properties: {{delta.enableRowTracking: true}}}}
"""
JOIN = """
KasprTable/orders: {}
KasprTable/products: {}
KasprJoin/priced: {leftTable: orders, rightTable: products, column: product}
"""
FIRST = {"of_orders": 'It\'s orders, "all" of them', "by": "key", "value": "1", "primary_key": "true", "tags": "{d: s}"}
FIRST["of_stock"] = "maker"


def described(app: Application, table: str) -> Description:
    found = app.delta.describe(app.spark, table)
    assert found is not None
    return found


def clustering(app: Application, table: str) -> list[str]:
    detail = app.spark.sql(f"DESCRIBE DETAIL {app.delta.namespace.identifier(table)}")
    (row,) = detail.select("clusteringColumns").collect()
    return list(row[0])


@pytest.mark.parametrize("place", ["catalog", "folder"])
def test_tables_get_what_is_declared_and_nothing_is_asked_while_it_stays(
    spark: SparkSession, tmp_path: Path, catalog: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = catalog if place == "catalog" else None
    schema = catalog.removeprefix("unity://").split("/")[0]
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    spark.sql(f"CREATE VIEW {schema}.of_others AS SELECT 'a' AS id")

    def app_with(**changes: str) -> Application:
        text = MANIFESTS.format(view=f"{schema}.of_others", **{**FIRST, **changes})
        return opened(spark, tmp_path, "shop", text, warehouse)

    app = app_with()
    assert dict(app.plan.waiting)[ResourceRef("table", "shown")].startswith(f"'{schema}.of_others' is a view, which")
    refused = [notice.split(" was refused: ")[0] for notice in app.plan.notices]
    assert refused == (["'tags' of 'products'", "'primaryKey' of 'products'"] if place == "catalog" else [])
    orders = described(app, "orders")
    assert (orders.comment, orders.has("a.b", "1"), orders.has_change_feed) == (FIRST["of_orders"], True, True)
    assert described(app, "priced").tracks_rows
    assert (clustering(app, "orders"), clustering(app, "priced")) == (["key"], ["key"])
    commented = (("sku", "Of the maker"), ("amount", "In boxes"))
    assert described(app, "stock").column_comments == commented
    app.table("stock").put({"S1": {"amount": 1}})
    app.table("stock").put({"S1": {"amount": 2}})
    assert described(app, "stock").column_comments == commented
    app.table("products").put({"P1": {"n": 1}})
    app.table("orders").put({"O1": {"product": "P1"}, "O2": {"product": "P2"}})
    app.run()
    app.table("orders").put({"O2": {"product": "P1"}})
    app.run()
    assert sorted(app.join("priced").to_dict()) == ["O1", "O2"]

    quiet = {"primary_key": "false", "tags": "{}"}
    app_with(**quiet)
    with monkeypatch.context() as patched:
        patched.setattr(Tables, "declare", lambda *_: pytest.fail("a table was declared again"))
        assert app_with(**quiet).plan.notices == ()
    changed = app_with(**quiet, of_orders="Ours", by="timestamp", value="2", of_stock="seller")
    assert described(changed, "stock").column_comments == (("sku", "Of the seller"), commented[1])
    orders = described(changed, "orders")
    assert (orders.comment, orders.has("a.b", "2")) == ("Ours", True)
    assert clustering(changed, "orders") == ["timestamp"]
    version = changed.delta.newest(spark, "orders").version
    (tmp_path / "volume" / "_layouts.json").unlink(missing_ok=True)
    app_with(**quiet, of_orders="Ours", by="timestamp", value="2", of_stock="seller")
    assert changed.delta.newest(spark, "orders").version <= version + 1  # Delta commits the same clustering again


@pytest.fixture
def internal(spark: SparkSession, catalog: str) -> Iterator[str]:
    """The schema of internal tables."""
    schema = f"{catalog.removeprefix('unity://').split('/')[0]}_internal"
    yield schema
    spark.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def test_internal_tables_may_have_a_schema_of_their_own(
    spark: SparkSession, tmp_path: Path, catalog: str, internal: str
) -> None:
    place, _, location = catalog.partition("?")
    warehouse = f"{place}?internal={internal.rpartition('.')[2]}{'&' if location else ''}{location}"
    app = opened(spark, tmp_path, "shop", JOIN, warehouse)
    app.table("products").put({"P1": {"n": 1}})
    app.table("orders").put({"O1": {"product": "P1"}})
    app.run()
    app.table("products").put({"P1": {"n": 2}})
    again = opened(spark, tmp_path, "shop", JOIN, warehouse)
    again.run()
    assert again.join("priced").to_dict() == {"O1": {"left": {"product": "P1"}, "right": {"n": 2}}}

    def tables_in(schema: str) -> set[str]:
        return {row["tableName"] for row in spark.sql(f"SHOW TABLES IN {schema}").collect()}

    shown = {"orders", "products", "priced", "records__priced_channel", "v_orders", "v_products", "v_priced"}
    schema = internal.removesuffix("_internal")
    assert tables_in(schema) == {*shown, INTERNAL_SCHEMA_MARK}
    assert tables_in(internal) == {*SYSTEM, "subscriptions__priced", "channel__priced_channel"}
    spark.sql(f"INSERT INTO {internal}.channel__priced_channel (key, kind) VALUES ('x', 'state')")  # noqa: S608
    records = spark.read.table(f"{schema}.records__priced_channel").orderBy("timestamp", "seq").collect()
    assert [(row["key"], row["kind"], json.loads(row["right"])) for row in records] == [
        ('"O1"', "value", {"n": 1}),
        ('"O1"', "value", {"n": 2}),
    ]
    assert [*records[0].asDict()] == ["key", "kind", "left", "right", "timestamp", "seq"]
    with pytest.raises(UsageError, match=f"elsewhere, see .*{INTERNAL_SCHEMA_MARK}"):
        Application.open(warehouse=catalog, spark=spark)
    app.delete("join", "priced", purge=True)
    assert tables_in(internal) == set(SYSTEM)
    assert "records__priced_channel" not in tables_in(schema)

"""Tables that others write by plain SQL: several rows of a key, null keys, keys that are no canonical JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaspr_delta import Application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_app(spark: SparkSession, folder: Path) -> Application:
    return Application.open(Path(__file__).parent / "applications" / "joins.yaml", warehouse=folder, spark=spark)


def insert(app: Application, table: str, key: str, value: str, second: int = 0) -> None:
    app.sql(f"INSERT INTO {table} VALUES ({key}, {value}, TIMESTAMP_SECONDS({second}))")  # noqa: S608  a test's literals


def results(app: Application) -> dict[Any, Any]:
    return {key: value["right"]["name"] for key, value in app.join("inner").to_dict().items()}


def test_rows_written_by_sql_are_joined_and_bad_keys_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    app = open_app(spark, tmp_path)
    insert(app, "products", "'\"P1\"'", '\'{"name":"Widget"}\'')
    insert(app, "products", "'P2'", '\'{"name":"key without quotes"}\'')
    insert(app, "orders", "'\"good\"'", '\'{"product_id":"P1"}\'')
    insert(app, "orders", "'\"gone\"'", "NULL")
    insert(app, "orders", "NULL", '\'{"product_id":"P1"}\'')
    insert(app, "orders", "'\"twice\"'", '\'{"product_id":"P1","n":1}\'', second=1)
    insert(app, "orders", "'\"twice\"'", '\'{"product_id":"P1","n":2}\'', second=2)
    app.run()

    assert results(app) == {"good": "Widget", "twice": "Widget"}
    assert app.join("inner").get("twice")["left"]["n"] == 2
    letters = {(letter["reason"], letter["key"]) for letter in app.dead_letters("join/inner")}
    assert letters == {
        ("null key", None),
        ("key is not canonical JSON text", "P2"),
        ("duplicate key", '"twice"'),
    }

    app.sql("DELETE FROM orders WHERE timestamp = TIMESTAMP_SECONDS(2)")
    app.run()
    assert app.join("inner").get("twice")["left"]["n"] == 1


@pytest.mark.slow
def test_update_merge_and_overwrite_by_sql_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    app = open_app(spark, tmp_path)
    app.table("products").put({"P1": {"name": "Widget"}, "P2": {"name": "Gadget"}})
    app.table("orders").put({"a": {"product_id": "P1"}, "b": {"product_id": "P1"}})
    app.run()

    app.sql("UPDATE orders SET key = '\"c\"' WHERE key = '\"a\"'")
    app.sql(
        "MERGE INTO orders t USING (SELECT '\"b\"' AS key) s ON t.key = s.key"
        ' WHEN MATCHED THEN UPDATE SET value = \'{"product_id":"P2"}\''
    )
    app.run()
    assert results(app) == {"b": "Gadget", "c": "Widget"}

    app.sql('INSERT OVERWRITE orders VALUES (\'"d"\', \'{"product_id":"P2"}\', NULL)')
    app.run()
    assert results(app) == {"d": "Gadget"}
    subscriptions = app.sql("SELECT key FROM subscriptions__inner").collect()
    assert [row["key"] for row in subscriptions] == ['"d"']

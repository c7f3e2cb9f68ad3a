"""An application over a folder that starts Spark when something needs it: rows and records are those that Spark has."""

from __future__ import annotations

import json
import os
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.api.wanted import Wanted
from kaspr_delta.storage.lazy_session import is_running
from tests.connect import ON_CONNECT
from tests.manifests import manifests

MANIFESTS = """
KasprTable/products:
  description: What is sold.
  schema: "id STRING, price DECIMAL(12, 2), made DATE, weight DOUBLE, at TIMESTAMP, bits BINARY"
  key: [id]
KasprTable/places: {schema: "zip INT, tags MAP<STRING, STRING>, sizes ARRAY<INT>, inner STRUCT<a: INT>", key: [zip]}
KasprTable/orders: {}
KasprTable/pictures: {keySerializer: raw, valueSerializer: raw}
KasprJoin/priced: {leftTable: orders, rightTable: products, column: product, outputChannel: prices}
KasprAgent/take:
  input: {topic: {name: raw-orders}}
  processors: {pipeline: [take], operations: [{name: take, map: {python: "def take(value): return value"}}]}
"""
TEN = datetime(2024, 5, 1, 10, tzinfo=timezone.utc)
PRODUCT = {"price": Decimal("2.50"), "made": date(2024, 1, 1), "weight": float("inf"), "at": TEN, "bits": b"\x00\xff"}
PLACE = {"tags": {"a": "b"}, "sizes": [1, None], "inner": {"a": None}}


def opened(folder: Path) -> Application:
    (folder / "shop.yaml").write_text(manifests("shop", MANIFESTS))
    return Application.open(folder / "shop.yaml", warehouse=folder / "wh")


@pytest.mark.skipif(ON_CONNECT in os.environ, reason="its server has no other catalog")
def test_an_application_in_a_folder_needs_no_current_catalog(spark: SparkSession, tmp_path: Path) -> None:
    """A notebook may have used tables of another catalog before."""
    jvm: Any = spark._jvm
    jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    spark.conf.set("spark.sql.catalog.other", "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog")
    spark.conf.set("spark.sql.catalog.other.url", f"jdbc:derby:memory:{tmp_path.name};create=true")
    spark.conf.set("spark.sql.catalog.other.driver", "org.apache.derby.jdbc.EmbeddedDriver")
    spark.catalog.setCurrentCatalog("other")
    try:
        (tmp_path / "shop.yaml").write_text(manifests("shop", MANIFESTS))
        app = Application.open(tmp_path / "shop.yaml", warehouse=tmp_path / "wh", spark=spark)
        app.table("orders").put({"O1": {"product": "P1"}})
        app.table("products").put({"P1": PRODUCT})
        app.run()
        assert [*app.join("priced").to_dict()] == ["O1"]
        spark.catalog.setCurrentCatalog("other")
        assert app.sql("SELECT * FROM v_orders").count() == 1
    finally:
        spark.catalog.setCurrentCatalog("spark_catalog")


@pytest.mark.usefixtures("spark")
def test_what_is_written_and_read_without_a_session_is_what_spark_reads(tmp_path: Path) -> None:
    app = opened(tmp_path)
    orders: dict[Any, Any] = {"O1": {"product": "P1"}, 2: {"product": "P2"}, ("a", 1): {"product": None}}
    app.table("orders").put(orders)
    app.table("products").put({"P1": PRODUCT, "P2": {}})
    app.table("products").put({"P2": None, "P3": {"price": 1}})
    app.table("pictures").put({b"\xff": b"\x00" * 80, b"k": b""})
    app.topic("raw-orders").produce([{"key": "O1", "value": 1, "headers": {"a": "b"}, "timestamp": 5}, {"value": None}])
    app.topic("raw-orders").produce([{"key": f"O{n}", "value": n} for n in range(20)])
    assert app.table("orders").to_dict() == orders
    assert app.table("products").get("P1") == {"id": "P1", **PRODUCT}
    assert app.table("pictures").to_dict() == {b"\xff": b"\x00" * 80, b"k": b""}
    raw = app.topic("raw-orders").records()
    assert [one["value"] for one in app.topic("raw-orders").records(3, tail=2)] == [18, 19]
    assert not is_running(app._spark)
    assert app.channel("prices").records() == []
    assert app.join("priced").to_dict() == {}

    app.table("places").put({10115: PLACE})  # delta-rs compares no maps
    assert is_running(app._spark)
    assert app.table("places").get(10115) == {"zip": 10115, **PLACE}
    assert app.topic("raw-orders").records() == raw
    stored: Any = app.topic("raw-orders")
    assert len(Wanted().in_spark(stored.stored)) == len(raw)
    assert [row["offset"] for row in Wanted(tail=4).in_spark(stored.stored)] == [one["offset"] for one in raw[-4:]]
    by_spark = {row["id"]: row.asDict() for row in app.table("products").df.drop("_timestamp").collect()}
    assert by_spark["P1"] == {"id": "P1", **PRODUCT, "at": by_spark["P1"]["at"]}
    assert set(by_spark) == {"P1", "P3"}
    described = app.delta.describe(app.spark, "products")
    assert described is not None
    assert (described.comment, described.has_change_feed) == ("What is sold.", True)
    app.run()
    assert app.join("priced").get("O1") == {"left": {"product": "P1"}, "right": {"id": "P1", **PRODUCT}}
    assert json.dumps(app.channel("prices").records()[-1]["value"]["left"])
    emitted: Any = app.channel("prices")
    assert [row["offset"] for row in Wanted().in_spark(emitted.stored)] == [one["offset"] for one in emitted.records()]

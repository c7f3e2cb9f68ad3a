"""Columns of typed tables may have any name that SQL can hold: tables made from them get column mapping if needed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kaspr_delta import Application
from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.dialect import SPARK
from tests.manifests import manifests
from tests.serving import served_by_uvicorn
from tests.unit.web.conftest import view, wait_for

pytestmark = pytest.mark.further

# In tables of others also with a backtick: a table with a feed that this package changes cannot have one.
NAMES = [
    *("Product Id", "a,b", "a;b", "{rows}", "(x)", "a\nb", "a\tb", "a=b", 'say "hi"', "it's", "a.b", "price €", "日本"),
    *("a/b", "50%", "a:b", "back\\slash", "select", "SELECT ", "left", "key2", "_pair2", " ", "{", "$x"),
]
EVERY = [*NAMES, "a`b"]


# JSON is YAML: names of columns need no other quotes there.
SPECS = """
KasprApp/app: {{}}
KasprTable/products: {{source: {{table: {source}, key: [Product Id]}}}}
KasprTable/orders: {{schema: {schema}, key: [a.b]}}
KasprTable/plain: {{}}
KasprJoin/j: {{leftTable: orders, rightTable: products, column: "`Product Id`", type: left}}
KasprJoin/picked:
  leftTable: orders
  rightTable: products
  column: Product Id
  select: {{columns: {selected}}}
KasprTable/per: {{from: {{table: products}}, groupBy: {{python: "def group(value): return value['a`b']"}}, count: {{}}}}
"""


def app_manifests(source: Path) -> str:
    schema = ", ".join(f"{quoted(name)} STRING" for name in NAMES)
    selected = {f"{name}!": f"right.{quoted(name)}" for name in NAMES}
    selected |= {"tick": "right.`a``b`", "z": "right.`of it`.`x y`"}
    shown = "def shown(value, key, orders, products): return [orders.get(key), products.get('q0')]"
    views = view("shown", "GET", "/shown/{key}", shown, tables="orders products").replace(": shop}", ": app}")
    specs = SPECS.format(source=source, schema=json.dumps(schema), selected=json.dumps(selected))
    return f"{manifests('app', specs)}---\n{views}"


def value(of: str, **other: str) -> dict[str, str]:
    return {name: f"{of}{number}" for number, name in enumerate(EVERY)} | other


@pytest.mark.parametrize("place", ["folder", pytest.param("catalog", marks=pytest.mark.slow)])
def test_columns_of_any_name_pass_through_tables_joins_and_files(
    spark: SparkSession, tmp_path: Path, catalog: str, place: str
) -> None:
    products = f"delta.`{tmp_path / 'products'}`"
    columns = ", ".join(f"{quoted(name)} STRING" for name in EVERY)
    spark.sql(
        f"CREATE TABLE {products} ({columns}, `of it` STRUCT<`x y`: INT>) USING DELTA"
        " TBLPROPERTIES (delta.enableChangeDataFeed = true, delta.columnMapping.mode = 'name')"
    )
    one = ", ".join(SPARK.text(text) for text in value("p").values())
    spark.sql(f"INSERT INTO {products} SELECT {one}, named_struct('x y', 7)")
    file = tmp_path / "app.yaml"
    file.write_text(app_manifests(tmp_path / "products"))

    app = Application.open(file, warehouse=tmp_path / "wh" if place == "folder" else catalog, spark=spark)

    assert app.plan.waiting == ()
    order = {name: text for name, text in value("o").items() if name in NAMES} | {"Product Id": "p0"}
    key = order.pop("a.b")
    app.table("orders").put({key: order})
    app.table("plain").put({"x": 1})
    app.run()
    right = value("p") | {"of it": {"x y": 7}}
    assert app.join("j").to_dict() == {key: {"left": {**order, "a.b": key}, "right": right}}
    assert app.table("per").to_dict() == {right["a`b"]: 1}
    selected = {f"{name}!": right[name] for name in NAMES} | {"tick": right["a`b"], "z": 7}
    assert app.join("picked").to_dict() == {key: selected}

    spark.sql(f"INSERT INTO {products} SELECT {one.replace('p', 'q')}, NULL")
    # Delta itself cannot UPDATE a table with a backtick in the name of a column.
    changes = {"a.b": F.expr("IF(`Product Id` = 'p0', 'new', `a.b`)"), "of it": F.lit(None)}
    rows = spark.read.format("delta").load(str(tmp_path / "products")).withColumns(changes)
    rows.write.format("delta").mode("overwrite").save(str(tmp_path / "products"))
    app.table("orders").put({key: {**order, "it's": "changed"}})
    app = Application.open(file, warehouse=tmp_path / "wh" if place == "folder" else catalog, spark=spark)
    assert app.run().dead_letters == 0
    changed = {**order, "a.b": key, "it's": "changed"}
    assert app.join("j").get(key) == {"left": changed, "right": {**right, "a.b": "new", "of it": None}}
    assert app.join("picked").get(key) == {**selected, "a.b!": "new", "z": None}
    assert app.table("products").get("q0")["a`b"] == value("q")["a`b"]
    assert [row["x"] for row in app.sql("SELECT `right`.`a.b` AS x FROM v_j").collect()] == ["new"]

    check_files(app, tmp_path, key, changed)
    mapped = {name for name in ("orders", "j", "picked", "channel__j_channel") if is_mapped(app, name)}
    assert mapped == {"orders", "j", "picked", "channel__j_channel"}
    assert not [name for name in ("plain", "per", "subscriptions__j", "_kaspr_progress") if is_mapped(app, name)]
    if place == "folder":
        check_pages(app, key, changed)


def check_files(app: Application, tmp_path: Path, key: str, changed: dict[str, str]) -> None:
    app.table("orders").export(str(tmp_path / "orders.csv"))
    with (tmp_path / "orders.csv").open(newline="") as lines:
        (read,) = csv.DictReader(lines)
    assert {name: read[name] for name in NAMES} == changed
    app.table("orders").export(str(tmp_path / "orders.parquet"))
    app.join("picked").export(str(tmp_path / "picked.parquet"))
    assert {f"{name}!" for name in NAMES} < set(pq.read_table(tmp_path / "picked.parquet").column_names)
    app.table("orders").delete(key)
    rows = pq.read_table(tmp_path / "orders.parquet").select(NAMES)
    pq.write_table(rows, tmp_path / "again.parquet")
    assert app.table("orders").load(str(tmp_path / "again.parquet")) == 1
    assert app.table("orders").to_dict() == {key: changed}


def check_pages(app: Application, key: str, changed: dict[str, str]) -> None:
    with served_by_uvicorn(app.web_application()) as client:
        for page in ("table/products", "table/orders", "join/j", "join/picked"):
            found = client.get(f"/ui/{page}")
            assert found.status_code == 200
            assert key in found.text or "products" in page
        wait_for(lambda: client.get(f"/shown/{key}").json()[0] == changed)
        app.table("orders").put({key: {**changed, "a=b": "again"}})
        wait_for(lambda: client.get(f"/shown/{key}").json()[0]["a=b"] == "again")
        assert client.get(f"/shown/{key}").json()[1]["a`b"] == value("q")["a`b"]


def is_mapped(app: Application, table: str) -> bool:
    rows = app.sql(f"SHOW TBLPROPERTIES {table}").collect()
    return ("delta.columnMapping.mode", "name") in [(row["key"], row["value"]) for row in rows]

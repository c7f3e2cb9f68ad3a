"""Joins of a stream with a table that has columns, while its rows change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaspr_delta import Application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANIFESTS = """
apiVersion: kaspr.io/v1alpha1
kind: KasprApp
metadata: {{name: clicks}}
spec: {{}}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {{name: products, labels: {{kaspr.io/app: clicks}}}}
spec: {{source: {{table: "{folder}/products", key: [id]}}}}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprJoin
metadata: {{name: clicked, labels: {{kaspr.io/app: clicks}}}}
spec: {{leftStream: {{topic: clicks}}, rightTable: products, on: key, type: left}}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprJoin
metadata: {{name: offered, labels: {{kaspr.io/app: clicks}}}}
spec:
  leftStream: {{topic: clicks}}
  rightTable: products
  type: left
  rightExtractor: {{python: "def product(row): return row['made_of']"}}
"""


def seen(app: Application, join: str) -> list[tuple[Any, Any, Any]]:
    records = [record["value"] for record in app.channel(f"{join}-channel").records()]
    rows = [(value["left"], value["right"]) for value in records if value is not None]
    return [(left["n"], right and right["id"], right and right["name"]) for left, right in rows]


def test_a_record_meets_the_row_as_it_is_whichever_statement_changed_it(spark: SparkSession, tmp_path: Path) -> None:
    products = f"delta.`{tmp_path / 'products'}`"
    spark.sql(
        f"CREATE TABLE {products} (id STRING, made_of STRING, name STRING) USING DELTA"
        " TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )

    def change(statement: str) -> None:
        spark.sql(statement.format(products))

    change("INSERT INTO {} VALUES ('A', 'X', 'Ant'), ('B', 'A', 'Bee')")
    (tmp_path / "clicks.yaml").write_text(MANIFESTS.format(folder=tmp_path))
    app = Application.open(tmp_path / "clicks.yaml", warehouse=tmp_path / "wh", spark=spark)

    def click(number: int) -> None:
        app.topic("clicks").produce([{"key": "A", "value": {"n": number}}])
        app.run()

    click(1)
    spark.sql(f"ALTER TABLE {products} SET TBLPROPERTIES (delta.columnMapping.mode = 'name')")
    click(2)
    change("UPDATE {} SET name = upper(name)")
    click(3)
    change("DELETE FROM {}")
    click(4)
    assert seen(app, "clicked") == [(1, "A", "Ant"), (2, "A", "Ant"), (3, "A", "ANT"), (4, None, None)]
    assert seen(app, "offered") == [(1, "B", "Bee"), (2, "B", "Bee"), (3, "B", "BEE"), (4, None, None)]

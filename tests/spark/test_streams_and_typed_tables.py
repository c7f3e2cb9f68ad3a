"""Joins of a stream with a table that has columns, while its rows change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application, ResourceFailedError
from kaspr_delta.engine.joins.stream_table.stream_table import StreamTable
from tests.manifests import opened
from tests.spark.dying import lost_power
from tests.spark.others import TableOfOthers

MANIFESTS = """
KasprApp/clicks: {{}}
KasprTable/products: {{source: {{table: "{folder}/products", key: [id]}}}}
KasprJoin/clicked: {{leftStream: {{topic: clicks}}, rightTable: products, on: key, type: left}}
KasprJoin/offered:
  leftStream: {{topic: clicks}}
  rightTable: products
  type: left
  rightExtractor: {{python: "def product(row): return row['made_of']"}}
"""


class Shop:
    """A Delta table of products that SQL writes, and a topic of clicks on one product."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.products = TableOfOthers(spark, folder / "products")
        self.products.make("id STRING, made_of STRING, name STRING")
        self.products.run("INSERT INTO {} VALUES ('A', 'X', 'Ant'), ('B', 'A', 'Bee')")
        self.app = opened(spark, folder, "clicks", MANIFESTS.format(folder=folder))

    def click(self, number: int) -> None:
        self.app.topic("clicks").produce([{"key": "A", "value": {"n": number}}])


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


def records_with_rows(app: Application, join: str) -> list[tuple[Any, Any, Any]]:
    records = [record["value"] for record in app.channel(f"{join}-channel").records()]
    rows = [(value["left"], value["right"]) for value in records if value is not None]
    return [(left["n"], right and right["id"], right and right["name"]) for left, right in rows]


@pytest.mark.slow
def test_a_record_meets_the_current_row_after_any_kind_of_statement(shop: Shop) -> None:
    columns_by_name = "ALTER TABLE {} SET TBLPROPERTIES (delta.columnMapping.mode = 'name')"
    for number, statements in enumerate(
        ((columns_by_name, "UPDATE {} SET name = upper(name)"), ("DELETE FROM {}",), ())
    ):
        shop.click(number)
        shop.app.run()
        for statement in statements:
            shop.products.run(statement)
    assert records_with_rows(shop.app, "clicked") == [(0, "A", "Ant"), (1, "A", "ANT"), (2, None, None)]
    assert records_with_rows(shop.app, "offered") == [(0, "B", "Bee"), (1, "B", "BEE"), (2, None, None)]


@pytest.mark.slow
def test_a_repeated_batch_shows_no_later_change_to_earlier_records(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repeated batch reads the same records as before, but the newest version of the table."""
    shop.click(0)
    shop.app.run()
    shop.click(1)
    with monkeypatch.context() as patched:
        patched.setattr(StreamTable, "after", lost_power)
        with pytest.raises(ResourceFailedError):
            shop.app.run()
    shop.click(2)
    shop.products.run("UPDATE {} SET name = upper(name)")
    shop.click(3)
    shop.app.run()
    clicked, offered = records_with_rows(shop.app, "clicked"), records_with_rows(shop.app, "offered")
    assert clicked == [*((number, "A", "Ant") for number in range(3)), (3, "A", "ANT")]
    assert offered == [*((number, "B", "Bee") for number in range(3)), (3, "B", "BEE")]

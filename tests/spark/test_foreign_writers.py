"""Tables that others write by plain SQL: several rows of a key, null keys, keys and values that are no JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from tests.manifests import opened

MANIFESTS = """
KasprTable/orders: {}
KasprTable/products: {}
KasprJoin/inner:
  leftTable: orders
  rightTable: products
  extractor: {python: "def product(order): return order['product_id']"}
KasprJoin/left:
  leftTable: orders
  rightTable: products
  type: left
  extractor: {python: "def product(order): return order['product_id']"}
KasprJoin/by-key: {leftTable: orders, rightTable: products, on: key, type: left}
"""
JOINS = ("inner", "left", "by-key")


@dataclass(frozen=True)
class After:
    """The results and the dead letters of the joins after a run."""

    results: dict[str, dict[Any, Any]]
    letters: dict[str, list[dict[str, Any]]]

    @classmethod
    def run(cls, app: Application) -> After:
        app.run(only=[f"join/{name}" for name in JOINS])
        results = {name: app.join(name).to_dict() for name in JOINS}
        return cls(results, {name: app.dead_letters(f"join/{name}") for name in JOINS})


def names(results: dict[Any, Any]) -> dict[Any, str]:
    return {key: value["right"]["name"] for key, value in results.items()}


@pytest.fixture(scope="module")
def after(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[After]:
    """After a run on rows of SQL; after one of two rows of a key was deleted and a product broken; after its repair."""
    app = opened(spark, tmp_path_factory.mktemp("foreign"), "shop", MANIFESTS)
    app.sql(
        "INSERT INTO products SELECT *, TIMESTAMP_SECONDS(0) FROM VALUES"
        """ ('"P1"', '{"name":"Widget"}'), ('P2', '{"name":"key without quotes"}'), ('"third"', '{"name":"Gadget"}')"""
    )
    app.sql(
        "INSERT INTO orders SELECT key, value, TIMESTAMP_SECONDS(at) FROM VALUES"
        """ ('"good"', '{"product_id":"P1"}', 0), ('"gone"', NULL, 0), (NULL, '{"product_id":"P1"}', 0),"""
        """ ('"twice"', '{"product_id":"P1","n":2}', 1), ('"twice"', '{"product_id":"P1","n":1}', 2),"""
        """ ('"third"', '{"product_id":"third"}', 0), ('"nothing"', 'null', 0) AS _(key, value, at)"""
    )
    runs = [After.run(app)]
    app.sql("DELETE FROM orders WHERE timestamp = TIMESTAMP_SECONDS(2)")
    app.sql("""UPDATE products SET value = '{"name": ' WHERE key = '"third"'""")
    runs.append(After.run(app))
    app.table("products").put({"third": {"name": "Repaired"}})
    return [*runs, After.run(app)]


def test_rows_written_by_sql_are_joined_and_bad_keys_are_dead_letters(after: list[After]) -> None:
    """A value that is NULL, or JSON's null, is no row."""
    assert names(after[0].results["inner"]) == {"good": "Widget", "twice": "Widget", "third": "Gadget"}
    assert set(after[0].results["left"]) == set(after[0].results["by-key"]) == {"good", "twice", "third"}
    assert {(letter["reason"], letter["key"]) for letter in after[0].letters["inner"]} == {
        ("null key", None),
        ("key is not canonical JSON text", "P2"),
        ("duplicate key", '"twice"'),
    }


def test_of_several_rows_of_a_key_the_newest_counts(after: list[After]) -> None:
    assert [one.results["inner"]["twice"]["left"]["n"] for one in after] == [1, 2, 2]


def test_an_unreadable_right_row_is_no_match_and_makes_a_dead_letter(after: list[After]) -> None:
    _, broken, repaired = after
    assert "third" not in broken.results["inner"]
    assert broken.results["left"]["third"]["right"] is broken.results["by-key"]["third"]["right"] is None
    for letters in broken.letters.values():
        (letter,) = (one for one in letters if one["key"] == '"third"')
        assert (letter["reason"].removeprefix("right "), letter["value"]) == ("value cannot be read", '{"name": ')
    assert [one["third"]["right"] for one in repaired.results.values()] == [{"name": "Repaired"}] * len(JOINS)


@pytest.mark.slow
def test_update_merge_and_overwrite_by_sql_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    app = opened(spark, tmp_path, "shop", MANIFESTS)
    app.table("products").put({"P1": {"name": "Widget"}, "P2": {"name": "Gadget"}})
    app.table("orders").put({"a": {"product_id": "P1"}, "b": {"product_id": "P1"}})
    app.run()

    app.sql("UPDATE orders SET key = '\"c\"' WHERE key = '\"a\"'")
    app.sql(
        "MERGE INTO orders t USING (SELECT '\"b\"' AS key) s ON t.key = s.key"
        ' WHEN MATCHED THEN UPDATE SET value = \'{"product_id":"P2"}\''
    )
    app.run()
    assert names(app.join("inner").to_dict()) == {"b": "Gadget", "c": "Widget"}

    app.sql('INSERT OVERWRITE orders VALUES (\'"d"\', \'{"product_id":"P2"}\', NULL)')
    app.run()
    assert names(app.join("inner").to_dict()) == {"d": "Gadget"}
    subscriptions = app.sql("SELECT key FROM subscriptions__inner").collect()
    assert [row["key"] for row in subscriptions] == ['"d"']

"""The change feeds of tables that are made from tables: a record for each row whose value changed, and no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from tests.manifests import opened

pytestmark = pytest.mark.further

MANIFESTS = """
KasprApp/made: {}
KasprTable/orders: {name: orders}
KasprTable/parcels:
  name: parcels
  schema: id STRING, carrier STRING, worth BIGINT
  key: id
KasprTable/sold:
  name: sold
  from: {table: orders}
  groupBy: {python: "def product(value): return value['product']"}
  aggregate:
    initializer: {python: "def zero(): return 0"}
    adder: {python: "def add(total, value): return total + value['amount']"}
    subtractor: {python: "def take(total, value): return total - value['amount'] or None"}
KasprTable/per-carrier:
  name: per-carrier
  from: {table: parcels}
  groupBy: {python: "def carrier(value): return value['carrier']"}
  count: {}
KasprJoin/sent:
  leftTable: parcels
  rightTable: orders
  type: left
  extractor: {python: "def order(value): return value['id']"}
KasprTable/worth:
  name: worth
  from: {join: sent}
  groupBy: {python: "def carrier(value): return value['left']['carrier']"}
  aggregate:
    initializer: {python: "def zero(): return 0"}
    adder: {python: "def add(total, value): return total + value['left']['worth']"}
    subtractor: {python: "def take(total, value): return total - value['left']['worth']"}
"""


@pytest.fixture(scope="module")
def app(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Application:
    folder = tmp_path_factory.mktemp("made")
    app = opened(spark, folder, "made", MANIFESTS)
    write(app, {"O1": 5, "O2": 7, "O3": 1}, at=20)
    write(app, {"Q1": 5, "Q2": 7}, at=20, product="Q")
    app.table("parcels").put({f"O{n}": {"carrier": "ab"[n % 2], "worth": n} for n in range(1, 5)})
    app.run()
    return app


def write(app: Application, amounts: dict[str, int | None], at: int, product: str = "P") -> None:
    """Write orders by events with the time ``at``, in milliseconds; None deletes."""
    values = {key: None if one is None else {"product": product, "amount": one} for key, one in amounts.items()}
    app.topic("made-app-orders-changelog").produce(
        [{"key": key, "value": value, "timestamp": at} for key, value in values.items()]
    )


def changed_since(app: Application, versions: dict[str, int]) -> dict[str, list[Any]]:
    """By table, the keys whose rows were written after a version."""
    newest = {table: app.delta.newest(app.spark, table).version for table in versions}
    return {
        table: []
        if newest[table] == version
        else [row["key"] for row in app.delta.changes(app.spark, table, version + 1).select("key").distinct().collect()]
        for table, version in versions.items()
    }


def sold(app: Application) -> dict[str, tuple[int, int]]:
    """By product, the total and its time."""
    rows = app.delta.read(app.spark, "sold").selectExpr("key", "value", "unix_millis(timestamp) AS at").collect()
    return {json.loads(row["key"]): (int(row["value"]), row["at"]) for row in rows}


def test_changes_that_cancel_out_write_nothing_and_a_total_has_the_greatest_time_of_its_values(
    app: Application,
) -> None:
    """A total that was deleted begins anew with a new time."""
    before = {table: app.delta.newest(app.spark, table).version for table in ("per_carrier", "worth", "sold")}
    app.table("parcels").delete(["O3"])
    app.table("parcels").put({"O5": {"carrier": "b", "worth": 3}})
    app.sql("UPDATE parcels SET worth = 6 - worth WHERE carrier = 'a'")
    write(app, {"O1": 7, "O2": 5}, at=100)
    write(app, {"Q1": None, "Q2": None}, at=110, product="Q")
    assert app.run().resources["table/per-carrier"].rows_in == 4
    assert changed_since(app, before) == {"per_carrier": [], "worth": [], "sold": ['"Q"']}
    assert app.table("per-carrier").to_dict() == {"a": 2, "b": 2}
    assert app.table("worth").to_dict() == {"a": 6, "b": 4}
    assert app.table("sold").to_dict() == {"P": 13}

    write(app, {"O3": 2}, at=50)
    write(app, {"Q1": 3}, at=30, product="Q")
    app.run(only=["table/sold"])
    assert sold(app) == {"P": (14, 100), "Q": (3, 30)}


@pytest.mark.slow
def test_a_rebuild_writes_no_unchanged_row(app: Application) -> None:
    for table in ("sold", "per-carrier", "worth"):
        name = table.replace("-", "_")
        before, rows = {name: app.delta.newest(app.spark, name).version}, app.table(table).to_dict()
        compared = app.compare(f"table/{table}")
        assert (compared.added, compared.removed, compared.changed, compared.equal) == (0, 0, 0, len(rows))
        app.rebuild(f"table/{table}")
        assert app.table(table).to_dict() == rows
        assert changed_since(app, before) == {name: []}

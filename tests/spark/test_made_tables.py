"""The change feeds of tables that are made from tables: a record for each row whose value changed, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaspr_delta import Application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANIFESTS = """
apiVersion: kaspr.io/v1alpha1
kind: KasprApp
metadata: {name: made}
spec: {}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {name: orders, labels: {kaspr.io/app: made}}
spec: {name: orders}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {name: parcels, labels: {kaspr.io/app: made}}
spec:
  name: parcels
  schema: id STRING, carrier STRING, worth BIGINT
  key: id
---
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {name: sold, labels: {kaspr.io/app: made}}
spec:
  name: sold
  from: {table: orders}
  groupBy: {python: "def product(value): return value['product']"}
  aggregate:
    initializer: {python: "def zero(): return 0"}
    adder: {python: "def add(total, value): return total + value['amount']"}
    subtractor: {python: "def take(total, value): return total - value['amount'] or None"}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {name: per-carrier, labels: {kaspr.io/app: made}}
spec:
  name: per-carrier
  from: {table: parcels}
  groupBy: {python: "def carrier(value): return value['carrier']"}
  count: {}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprJoin
metadata: {name: sent, labels: {kaspr.io/app: made}}
spec:
  leftTable: parcels
  rightTable: orders
  type: left
  extractor: {python: "def order(value): return value['id']"}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {name: worth, labels: {kaspr.io/app: made}}
spec:
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
    (folder / "made.yaml").write_text(MANIFESTS)
    app = Application.open(folder / "made.yaml", warehouse=folder / "wh", spark=spark)
    write(app, {"O1": 5, "O2": 7, "O3": 1}, at=20)
    app.table("parcels").put({f"O{n}": {"carrier": "ab"[n % 2], "worth": n} for n in range(1, 5)})
    app.run()
    return app


def write(app: Application, amounts: dict[str, int | None], at: int) -> None:
    """Write orders by events with the time ``at``, in milliseconds; None deletes."""
    values = {key: None if one is None else {"product": "P", "amount": one} for key, one in amounts.items()}
    app.topic("made-app-orders-changelog").produce(
        [{"key": key, "value": value, "timestamp": at} for key, value in values.items()]
    )


def version_of(app: Application, table: str) -> int:
    return app.delta.newest(app.spark, table).version


def written_since(app: Application, table: str, version: int) -> list[dict[str, Any]]:
    if version_of(app, table) == version:
        return []
    return [row.asDict() for row in app.delta.changes(app.spark, table, version + 1).collect()]


def time_of(app: Application) -> int:
    (row,) = app.delta.read(app.spark, "sold").selectExpr("unix_millis(timestamp) AS at").collect()
    return int(row["at"])


def test_changes_that_cancel_out_write_nothing(app: Application) -> None:
    made = ("per_carrier", "worth", "sold")
    before = {table: version_of(app, table) for table in made}
    app.table("parcels").delete(["O3"])
    app.table("parcels").put({"O5": {"carrier": "b", "worth": 3}})
    app.sql("UPDATE parcels SET worth = 6 - worth WHERE carrier = 'a'")
    write(app, {"O1": 7, "O2": 5}, at=100)
    assert app.run().resources["table/per-carrier"].rows_in == 4
    assert {table: written_since(app, table, version) for table, version in before.items()} == {
        table: [] for table in made
    }
    assert app.table("per-carrier").to_dict() == {"a": 2, "b": 2}
    assert app.table("worth").to_dict() == {"a": 6, "b": 4}
    assert app.table("sold").to_dict() == {"P": 13}


def test_a_total_has_the_greatest_time_of_its_values(app: Application) -> None:
    write(app, {"O3": 2}, at=50)
    app.run()
    assert app.table("sold").to_dict() == {"P": 14}
    assert time_of(app) == 100


def test_a_deleted_total_begins_anew_with_a_new_time(app: Application) -> None:
    write(app, {"O1": None, "O2": None, "O3": None}, at=110)
    app.run()
    assert app.table("sold").to_dict() == {}
    write(app, {"O1": 3}, at=30)
    app.run()
    assert (app.table("sold").to_dict(), time_of(app)) == ({"P": 3}, 30)


def test_a_rebuild_writes_no_unchanged_row(app: Application) -> None:
    for table in ("sold", "per-carrier", "worth"):
        name = table.replace("-", "_")
        before, rows = version_of(app, name), app.table(table).to_dict()
        app.rebuild(f"table/{table}")
        assert app.table(table).to_dict() == rows
        assert written_since(app, name, before) == []

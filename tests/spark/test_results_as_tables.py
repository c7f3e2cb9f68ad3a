"""Agents, tasks and web views read the result of a join as they read a table."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.control.source_tables import known_by_name
from kaspr_delta.engine.agent.ordered import PinnedReader
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.serde.typed_text import text_of
from kaspr_delta.storage.warehouse.sql_warehouse import SqlWarehouse
from kaspr_delta.web.local_copy import LocalCopy
from kaspr_delta.web.store import LocalStore
from kaspr_delta.web.warehouse_store import WarehouseStore
from tests.folders import delta_rs
from tests.manifests import opened
from tests.spark.channels import values_of
from tests.sql_on_spark import SqlOnSpark

pytestmark = pytest.mark.further

SHOP = """
KasprTable/orders: {schema: "id STRING, product INT, price DECIMAL(10, 2), tags MAP<STRING, STRING>", key: id}
KasprTable/products: {schema: "id INT, name STRING, made DATE", key: id}
KasprTable/notes: {}
KasprTable/scans: {valueSerializer: raw}
KasprJoin/priced: {leftTable: orders, rightTable: products, column: product, type: left}
KasprJoin/noted: {leftTable: notes, rightTable: notes, "on": key}
KasprJoin/mixed: {leftTable: orders, rightTable: notes, "on": key, type: left}
KasprJoin/scanned: {leftTable: notes, rightTable: scans, "on": key, type: left}
KasprJoin/shown:
  leftTable: orders
  rightTable: products
  column: product
  select: {columns: {total: left.price, name: right.name}}
KasprAgent/answer:
  input: {topic: {name: questions}}
  output: {topics: [{name: answers}]}
  processors:
    pipeline: [answer]
    operations:
      - name: answer
        tables:
          - {name: priced, paramName: priced}
          - {name: noted, paramName: noted}
          - {name: shown, paramName: shown}
        map:
          python: |
            def answer(id, priced, noted, shown):
                if id == "write":
                    shown["O1"] = {}
                found = priced.get(id)
                return [found and str(found["left"]["price"]), noted.get(id), len(shown)]
KasprWebView/price:
  request: {method: GET, path: "/price/{id}"}
  processors:
    pipeline: [look]
    operations:
      - name: look
        tables: [{name: shown, paramName: shown}]
        map: {python: "def look(id, shown): return shown[id]['name']"}
"""
RESULTS = ("priced", "noted", "mixed", "scanned", "shown")


@pytest.fixture(scope="module")
def app(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Application:
    """The application after a run."""
    app = opened(spark, tmp_path_factory.mktemp("shop"), "shop", SHOP)
    app.table("products").put({1: {"id": 1, "name": "Widget", "made": "2024-01-01"}})
    order = {"price": "2.50", "tags": {"a": "b"}}
    app.table("orders").put({"O1": {"id": "O1", "product": 1, **order}, "O2": {"id": "O2", "product": 9, **order}})
    app.table("notes").put({"O1": {"text": 'a "note"'}, "O3": {"text": None}})
    app.table("scans").put({"O1": b"\x00\xff"})
    app.topic("questions").produce([{"value": value} for value in ("O1", "O3", "write")])
    app.run()
    return app


def test_an_agent_behind_the_joins_gets_their_results_and_cannot_write_them(app: Application) -> None:
    note = {"text": 'a "note"'}
    assert values_of(app, "answers") == [
        ["2.50", {"left": note, "right": note}, 1],
        [None, {"left": {"text": None}, "right": {"text": None}}, 1],
    ]
    (letter,) = app.dead_letters("agent/answer")
    assert "'shown' is the result of a join: only the join writes it" in letter["detail"]
    stages = [stage.resources for stage in app.plan.stages]
    assert [str(ref) for ref in stages[-1]] == ["agent/answer"]


@pytest.mark.parametrize("join", RESULTS)
def test_local_copies_and_sql_warehouses_have_the_rows_that_functions_of_agents_get(
    spark: SparkSession, app: Application, join: str
) -> None:
    delta, client = delta_rs(app.delta.namespace), SqlOnSpark(spark)
    given: Any = client
    stores = LocalStore(delta), WarehouseStore(SqlWarehouse(given, "w1", app.delta.namespace))
    plan = app.plan.table_or_result(join)
    text = text_of(plan)
    table = KeyedTable(app.delta, plan)
    agents: Any = PinnedReader(spark, table, table.newest(spark).version).scan(None)
    assert agents
    for store in stores:
        (found,) = known_by_name(app.declared, [join], store.columns).values()
        assert not isinstance(found, str)
        copy = LocalCopy(delta, found)
        copy.refresh()
        for reader in (copy, store.reader(found)):
            rows: Any = reader.scan(None)
            assert _read(text, rows) == _read(text, agents)
            assert reader.fetch([*agents, '"missing"']) == rows
    for store in stores:
        store.close()


def _read(text: Any, rows: dict[Any, str]) -> dict[Any, Any]:
    return {text.key_object(key): text.value_object(value) for key, value in rows.items()}

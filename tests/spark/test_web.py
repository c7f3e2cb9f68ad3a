"""Tables that Spark writes are read without Spark, and Spark reads records that are written without it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.control.lag import lags_of
from kaspr_delta.control.registry import Registry
from kaspr_delta.control.totals import LocalTotals, totals_by_spark
from kaspr_delta.engine.batch.counters import as_metrics
from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.tables import Tables
from kaspr_delta.storage.warehouse.sql_warehouse import SqlWarehouse
from kaspr_delta.web.local_copy import LocalCopy
from kaspr_delta.web.outbox import Outbox
from kaspr_delta.web.store import LocalStore
from kaspr_delta.web.warehouse_store import WarehouseStore
from tests.folders import delta_rs
from tests.sql_on_spark import SqlOnSpark

pytestmark = pytest.mark.further

ROOT = Path(__file__).parents[2]
AGENT = ResourceRef("agent", "take-orders")


@pytest.mark.usefixtures("tables_with_own_ids")  # checkpoints identify tables by their ids
def test_runs_read_records_of_views_and_views_read_tables_of_runs(spark: SparkSession, tmp_path: Path) -> None:
    with Application.open(ROOT / "bundles" / "order-desk", warehouse=tmp_path / "wh", spark=spark) as app:
        delta = delta_rs(app.delta.namespace)
        outbox = Outbox(LocalStore(delta), app.plan)
        copy = LocalCopy(delta, app.plan.known_table("desk-orders"))

        def send(*orders: tuple[str, int]) -> None:
            topics: Topics = outbox.topics()
            placed = [(json.dumps(key).encode(), json.dumps({"quantity": n}).encode()) for key, n in orders]
            outbox.send(
                Effect("send", "placed-orders", key, value, None, 0, topics.partition("placed-orders", key))
                for key, value in placed
            )

        def content() -> dict[str, int]:
            return {json.loads(str(key)): json.loads(value)["quantity"] for key, value in copy.scan(None).items()}

        send(("O1", 1), ("O2", 2))
        assert lags_of(delta, app.plan, AGENT) == {"topic/placed-orders": 2}
        app.run()
        assert copy.refresh()
        assert content() == {"O1": 1, "O2": 2}
        assert lags_of(delta, app.plan, AGENT) == {"topic/placed-orders": 0}
        send(("O2", 3), ("O3", 3), ("O4", 4))
        assert lags_of(delta, app.plan, AGENT) == {"topic/placed-orders": 3}
        app.run()
        # The copy follows Spark's merges, deletions with deletion vectors and compaction as well.
        app.sql("ALTER TABLE desk_orders SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        app.sql("""DELETE FROM desk_orders WHERE key = '"O4"'""")
        app.sql("OPTIMIZE desk_orders")
        copy.refresh()
        assert content() == {"O1": 1, "O2": 3, "O3": 3}
        assert delta.count("desk_orders") == 3
        assert lags_of(delta, app.plan, AGENT) == {"topic/placed-orders": 0}
        counted = LocalTotals(delta).read()
        assert counted.resources[str(AGENT)]["rows_in"] == 5
        assert as_metrics(counted.summed_counters) == list(app.status().metrics)
        by_session = totals_by_spark(partial(Tables(app.delta.namespace).query, spark))
        assert (by_session.resources, by_session.counters) == (counted.resources, counted.counters)


@pytest.mark.slow
def test_a_sql_warehouse_sends_reads_and_registers_as_a_folder_does(spark: SparkSession, tmp_path: Path) -> None:
    with Application.open(ROOT / "bundles" / "order-desk", warehouse=tmp_path / "wh", spark=spark) as app:
        client: Any = SqlOnSpark(spark)
        store = WarehouseStore(SqlWarehouse(client, "w1", app.delta.namespace))
        outbox = Outbox(store, app.plan)
        value, headers = b'{"item": "it\'s \\\\ new"}', [{"key": "a'b", "value": b"\x00"}]
        outbox.send([Effect("send", "placed-orders", b'"it\'s"', value, headers, 1_000, 0)])
        outbox.send([Effect("send", "placed-orders", None, None, None, 1_000, 0)])
        first, second = app.topic("placed-orders").records()
        assert (first["key"], first["value"], first["timestamp"]) == ("it's", {"item": "it's \\ new"}, 1)
        assert first["headers"] == {"a'b": "\x00"}
        assert (second["key"], second["value"]) == (None, None)
        app.run()
        reader = store.reader(app.plan.known_table("desk-orders"))
        found = reader.fetch(['"it\'s"', '"nothing"'])
        assert {key: json.loads(text)["item"] for key, text in found.items()} == {'"it\'s"': "it's \\ new"}
        assert reader.scan(None).keys() == found.keys()
        assert store.tables.counts(["desk_orders"]) == {"desk_orders": 1}
        counted = store.done()
        assert counted.resources[str(AGENT)]["rows_in"] == 2
        assert as_metrics(counted.summed_counters) == list(app.status().metrics)
        registry = Registry(store.system)
        before = registry.documents()
        assert before == Registry(NativeSystemTables(delta_rs(app.delta.namespace))).documents()
        version = registry.version
        registry.change(lambda documents: documents[:-1])
        assert registry.version != version
        assert Registry(NativeSystemTables(delta_rs(app.delta.namespace))).documents() == before[:-1]

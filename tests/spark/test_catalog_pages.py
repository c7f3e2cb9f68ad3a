"""Pages over a fake SQL warehouse: they show the same rows and versions of tables as pages over delta-rs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.control.daily import DailyWork
from kaspr_delta.control.registry import Registry
from kaspr_delta.jobs import Deployment, Storage
from kaspr_delta.jobs.alerts import alerts
from kaspr_delta.jobs.dashboard import DATASETS
from kaspr_delta.jobs.usage import statements_query, usage_query
from kaspr_delta.storage.layout import DEAD_LETTERS, DELAY, EVENTS, PROGRESS, SYSTEM
from kaspr_delta.storage.page_reads import PageReads, RowFilter, RowsFound
from kaspr_delta.storage.warehouse.sql_warehouse import SqlWarehouse
from kaspr_delta.web.access import Visitor
from kaspr_delta.web.pages import Pages
from kaspr_delta.web.past import LastChange, Past, Then
from kaspr_delta.web.store import LocalStore
from kaspr_delta.web.warehouse_store import WarehouseStore
from tests.folders import delta_rs
from tests.manifests import manifests
from tests.sql_on_spark import SqlOnSpark

pytestmark = pytest.mark.further

MANIFESTS = """
KasprTable/orders: {name: orders}
KasprTable/stock:
  name: stock
  key: [shop, item]
  schema: >-
    shop STRING, item INT, price DECIMAL(20, 4), photo BINARY, counted TIMESTAMP, day DATE,
    at STRUCT<shelf: INT, since: TIMESTAMP>, tags ARRAY<STRING>, more MAP<STRING, DECIMAL(4, 1)>
KasprAgent/take-orders:
  input: {topic: {name: placed}}
  processors:
    pipeline: [take]
    operations:
      - name: take
        tables: [{name: orders, paramName: orders}]
        map:
          python: |
            def take(value, orders):
                orders[value["id"]] = {"quantity": value["quantity"]}
"""
EVIL = "\\' OR true --"
STOCK = (
    "SELECT '{0}', {1}, CAST('1234567890123456.7890' AS DECIMAL(20, 4)), X'00FF',"
    " TIMESTAMP'2024-05-01 10:00:00.123456Z', DATE'2024-02-29',"
    " named_struct('shelf', {2}, 'since', TIMESTAMP'2024-05-01 10:00:00.000001Z'), array('a', NULL),"
    " map('x', 1.5BD), current_timestamp()"
)


def write_stock(app: Application) -> None:
    """Insert two rows into a typed table, and update one of them."""
    rows = " UNION ALL ".join(STOCK.format(*row) for row in (("it\\'s", 1, 1), ("b", 2, 2)))
    app.sql(f"INSERT INTO stock {rows}")
    app.sql("UPDATE stock SET at = named_struct('shelf', 9, 'since', at.since), price = price + 1 WHERE item = 2")


def write_versions(app: Application) -> None:
    """Write some versions of both tables: rows are added, changed and deleted, and one record fails."""
    app.topic("placed").produce(
        [{"key": "1", "value": {"id": f"it's {n}", "quantity": n}} for n in range(3)] + [{"key": "x", "value": {}}]
    )
    app.run()
    app.table("orders").put({"it's 1": {"quantity": 7}, "O9": {"quantity": 9}})
    app.table("orders").delete(["it's 2"])
    write_stock(app)
    app.sql("DELETE FROM stock WHERE item = 1")


def sources(app: Application, spark: SparkSession) -> tuple[LocalStore, WarehouseStore]:
    """Two sources of pages over the same tables: one reads by delta-rs, one by SQL statements."""
    client: Any = SqlOnSpark(spark)
    warehouse = SqlWarehouse(client, "w1", app.delta.namespace)
    return LocalStore(delta_rs(app.delta.namespace)), WarehouseStore(warehouse)


def assert_equal_pasts(one: Past, other: Past, keys: Iterable[str], versions: Iterable[int]) -> tuple[LastChange, Then]:
    """Assert that two pasts of a table are equal; its last change, and the table at the last of the versions."""
    assert other.columns.keys() == one.columns.keys()
    assert other.versions == one.versions
    seen, last = one.last_change(), other.last_change()
    assert seen is not None
    assert last is not None
    assert last.changes == seen.changes != ()
    for version in versions:
        by_delta_rs, by_statements = one.history.commit(version), other.history.commit(version)
        assert by_delta_rs is not None
        assert by_statements is not None
        assert abs(by_delta_rs.at - by_statements.at) < timedelta(
            minutes=1
        )  # one is from the commit, one from its file
        assert replace(by_statements, at=by_delta_rs.at) == by_delta_rs
        for key in keys:
            then, there = one.then(version, key), other.then(version, key)
            assert replace(there, commit=None) == replace(then, commit=None), (version, key)
    return last, there


def assert_equal_rows(one: PageReads, other: PageReads, table: str, finds: Mapping[str, int]) -> None:
    """Assert that both find the same rows by a text, as many as given."""
    columns = one.columns(table)
    for find, count in finds.items():
        found, there = (reads.rows(table, None, columns, RowFilter(find=find), ("key",), 9) for reads in (one, other))
        assert isinstance(found, RowsFound)
        assert (found.count, there) == (count, found), find


@pytest.fixture
def app_file(tmp_path: Path) -> Path:
    file = tmp_path / "shop.yaml"
    file.write_text(manifests("shop", MANIFESTS))
    return file


def test_statements_read_rows_of_all_types_as_delta_rs_does(
    spark: SparkSession, tmp_path: Path, app_file: Path
) -> None:
    with Application.open(app_file, warehouse=tmp_path / "wh", spark=spark) as app:
        write_stock(app)
        here, there = sources(app, spark)
        one, other = (Past.of(source.tables, "stock", ("shop", "item"), is_typed=True) for source in (here, there))
        last, then = assert_equal_pasts(one, other, [""], [1])
        assert [(one.word, one.row["shop"]) for one in last.changes] == [("changed", "b")]
        assert [(one.word, one.row["shop"]) for one in then.since] == [("changed", "b")]
        assert there.tables.counts(["stock"]) == here.tables.counts(["stock"]) == {"stock": 2}
        assert sorted(there.tables.tables()) == here.tables.tables()
        for query in (usage_query, statements_query):  # Databricks alone has their tables
            with pytest.raises(AnalysisException, match="system") as refused:
                app.sql(query(app.plan, Deployment(sql_warehouse="w1")))
            assert not isinstance(refused.value, ParseException)


@pytest.mark.slow
def test_statements_read_figures_and_histories_as_delta_rs_does(
    spark: SparkSession, tmp_path: Path, app_file: Path
) -> None:
    with Application.open(app_file, warehouse=tmp_path / "wh", spark=spark) as app:
        write_versions(app)
        here, there = sources(app, spark)
        tables = ("orders", "stock", "topic__placed", "nothing")
        assert there.tables.counts(tables) == here.tables.counts(tables)
        ours, theirs = (source.figures(app.plan) for source in (here, there))
        assert (theirs.counts, theirs.done) == (ours.counts, ours.done)
        assert (theirs.letters, theirs.counters) == (ours.letters, ours.counters)
        assert theirs.letters == {("agent/take-orders", "placed"): 1}
        work, work_there = (DailyWork.of(source.tables) for source in (here, there))
        assert work is not None
        assert work_there is not None
        assert replace(work_there, bytes_added=0, bytes_removed=0) == replace(work, bytes_added=0, bytes_removed=0)
        assert 0 < work_there.bytes_added <= work.bytes_added  # delta-rs notes no bytes with its commits
        assert Registry(there.system).documents() == Registry(here.system).documents()
        orders = {DEAD_LETTERS: ["at"], PROGRESS: ["checkpoint", "batch"], EVENTS: ["at", "name", "reason"]}
        for table, order in {**orders, "topic__placed": ["timestamp", "seq"]}.items():
            assert there.system.newest(table, order, 5) == here.system.newest(table, order, 5) != []
        assert there.system.newest(EVENTS, ["at"], 5, {"kind": EVIL}) == []
        assert_equal_rows(here.tables, there.tables, "orders", {"it's 1": 1, "QUANTITY": 3, EVIL: 3, "nowhere": 0})
        columns, by_time = here.tables.columns("topic__placed"), ("timestamp", "seq")
        times = [row["timestamp"] for row in here.system.newest("topic__placed", by_time, 4)]
        for where in (RowFilter(keys=(b'"1"', b"1'")), RowFilter(since=times[0], until=times[0]), RowFilter()):
            ours_, theirs_ = (
                source.tables.rows("topic__placed", None, columns, where, by_time, 2, newest=True)
                for source in (here, there)
            )
            assert isinstance(ours_, RowsFound)
            assert theirs_ == ours_
            assert ours_.count > 0
        one, other = (Past.of(source.tables, "orders") for source in (here, there))
        assert other.has_text_keys
        assert_equal_pasts(one, other, ["", "it's 1", EVIL], one.versions)
        stock, stock_there = (
            Past.of(source.tables, "stock", ("shop", "item"), is_typed=True) for source in (here, there)
        )
        assert not stock_there.has_text_keys
        assert_equal_pasts(stock, stock_there, [""], stock.versions)
        assert [(one.word, one.row["shop"]) for one in stock_there.then(1).since] == [
            ("changed", "b"),
            ("deleted", "it's"),
        ]
        assert Past.of(there.tables, "nothing").versions == range(0)
        shown = {name: app.sql(query).collect() for name, (_, query) in DATASETS.items()}
        assert {row.resource: (row.rows_in, row.dead_letters) for row in shown["resources"]} == {
            "agent/take-orders": (4, 1)
        }
        assert [(row.resource, row.dead_letters) for row in shown["letters"]] == [("agent/take-orders", 1)]
        assert [row.reason for row in shown["reasons"]] == [row["reason"] for row in app.dead_letters()]
        wanted = Deployment(sql_warehouse="w1", alert_schedule="0 0 * * * ?", alert_silence="1h", alert_delay="1h")
        looks = alerts("shop", wanted, Storage("shop", "spark_catalog", app.delta.namespace.registered_as))  # type: ignore[union-attr]
        queries = {name: str(alert.query_text) for name, alert in looks}
        found = {name: app.sql(query).first() for name, query in queries.items()}
        assert found == {"dead_letters": (1,), "stopped": (0,), "silent": (0,), "behind": (0,)}
        assert app.sql(queries["silent"].replace("3600 SECOND", "0 SECOND")).first() == (1,)
        for seconds, behind in ((3_600, 0), (3_601, 1)):
            note_delay(app, seconds)
            assert app.sql(queries["behind"]).first() == (behind,)
        for minutes, reason, stopped in (
            *((-60, "Failed", 0), (1, "Failed", 1), (2, "Resumed", 0), (3, "Waiting", 1), (4, "Resumed", 0)),
            *((-2_000, "RebuildRequired", 0), (5, "RebuildRequired", 1), (6, "Failed", 1)),
        ):
            note_event(app, minutes, reason, "KasprAgent", "take-orders")
            assert (reason, app.sql(queries["stopped"]).first()) == (reason, (stopped,))
        note_event(app, 7, "Waiting", "KasprJoin", "gone")
        assert app.sql(queries["stopped"]).first() == (1,)


def note_delay(app: Application, seconds: int) -> None:
    """Write the progress of a batch whose changes were read so many seconds after their commit."""
    batch = (
        "agent/take-orders",
        "c9",
        seconds,
        1,
        1,
        0,
        0,
        0,
        0.5,
        json.dumps({DELAY: seconds}),
        datetime.now(timezone.utc),
    )
    app.delta.append(app.spark, app.spark.createDataFrame([batch], SYSTEM[PROGRESS].columns), PROGRESS)


def note_event(app: Application, minutes: int, reason: str, kind: str, name: str) -> None:
    """Write an event of so many minutes from now."""
    at = datetime.now(timezone.utc) + timedelta(minutes=minutes)
    rows = app.spark.createDataFrame([(at, "Warning", reason, kind, name, "")], SYSTEM[EVENTS].columns)
    app.delta.append(app.spark, rows, EVENTS)


@pytest.mark.slow
def test_pages_of_a_catalog_need_few_and_bounded_statements(spark: SparkSession, catalog: str, app_file: Path) -> None:
    with Application.open(app_file, warehouse=catalog, spark=spark) as app:
        write_versions(app)
        client = SqlOnSpark(spark)
        warehouse = SqlWarehouse(client, "w1", app.delta.namespace)  # type: ignore[arg-type]
        pages = Pages(WarehouseStore(warehouse))

        def page(path: str, most: int, **query: str) -> str:
            client.executed_statements.clear()
            answer = pages.page(app.plan, path, Visitor(query=query, refused=""))
            assert answer is not None
            assert answer.status == 200, answer.body
            assert len(client.executed_statements) <= most, client.executed_statements
            bounded = ("LIMIT", "count(*) FROM", "_kaspr_resources")
            assert all(any(word in one for word in bounded) for one in client.executed_statements), (
                client.executed_statements
            )
            return answer.body.decode()

        overview = page("/ui", 5)
        assert re.search(r"table/orders</a>.*?data-name=\"Rows\">3<", overview, re.DOTALL)
        assert re.search(r"agent/take-orders feeds table/orders: [^<]*so far", overview)
        agent = page("/ui/agent/take-orders", 7)
        assert "Last 1 batch<" in agent
        assert re.search(r'value.quantity.*?<a href="/ui/table/orders">', agent, re.DOTALL)
        assert "4 records; 1 to 4" in page("/ui/topic/placed", 6)
        assert "1 record; 1 to 1" in page("/ui/topic/placed", 6, key="x")
        assert "take-orders" in page("/ui/activity", 2)
        assert '?key=O9#rows"' in page("/ui/search", 6, find="O9", keys="1")
        assert ">9<" in page("/ui/table/orders", 10, find="o9", column="value.quantity", test=">= 9")
        newest = page("/ui/table/orders", 10)
        assert "Committed" in newest
        assert "All rows at version" not in newest
        (version,) = re.findall(r'max="(\d+)"', newest)
        then = page("/ui/table/orders", 12, version=str(int(version) - 2))
        since = then[then.index("What has changed since") : then.index("All rows at version")]
        assert len(re.findall("was not there", since)) == 1
        assert len(re.findall("is not there", since)) == 1
        letters = page("/ui/dead-letters", 2)
        assert "kaspr-delta dead-letters --retry" in letters
        assert "Retry" not in letters
        # Files of an old version are removed, as by VACUUM.
        reader = spark.read.format("delta")
        name = warehouse.identifier("orders")
        files = set(reader.option("versionAsOf", 1).table(name).inputFiles())
        for file in files - set(spark.table(name).inputFiles()):
            Path(re.sub("^file:/*", "/", file)).unlink()
        spark.catalog.clearCache()
        assert "VACUUM has removed them" in page("/ui/table/orders", 12, version="1")
        app.sql("DROP TABLE stock")
        assert "table/stock" in page("/ui", 10)
        assert "Rows, now and then" not in page("/ui/table/stock", 10)

"""Streams over tables of a catalog: each begins where the one before ended, and reads only tables with new commits.

A stream over a catalog-managed table can be started again from its checkpoint only after a new commit. A platform may
remove the files of an old commit with VACUUM.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pytest
import time_machine
from pyspark.sql import DataFrame, SparkSession

from kaspr_delta import Application, ResourceFailedError
from kaspr_delta.api.topic import ChangelogHandle, TopicHandle
from kaspr_delta.jobs.dashboard import DATASETS
from kaspr_delta.plan.definition.joins import TableTableJoinPlan
from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.namespace import UnityNamespace, Warehouse
from kaspr_delta.storage.opening import open_tables
from kaspr_delta.storage.tables import Tables
from tests.connect import ON_CONNECT
from tests.continuous import running, wait_until
from tests.manifests import opened
from tests.spark import shapes
from tests.spark.channels import values_of
from tests.spark.dying import watched_writes
from tests.spark.priced import PRICED, prices
from tests.spark.statements import noted_statements
from tests.unity_catalog import EXTERNAL

# An application whose agents share a table.
SHOP = f"""{PRICED}\
  outputChannel: priced
KasprTable/totals: {{defaultSelector: {{python: "def default(): return int"}}}}
"""
ADD = """
KasprAgent/add-%s:
  input: {channel: {name: priced}}
  processors:
    pipeline: [add]
    operations:
      - name: add
        tables: [{name: totals, paramName: totals}]
        map:
          python: |
            import time

            def add(pair, totals):
                time.sleep(0.05)
                totals["all"] += pair["right"]["price"]
"""
CHANNEL = "channel__priced"
NUMBERS = Layout("number BIGINT", change_feed=True)
DOCUMENT = Path(__file__).parents[2] / "docs" / "cost-of-a-batch.md"


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The tables over which streams were started, with the first version of each. Asserts that it exists."""
    firsts: dict[str, int] = {}
    stream = Tables.stream

    def noting(delta: Tables, spark: SparkSession, table: str, first: int, limit: str | None = None) -> DataFrame:
        reads = stream(delta, spark, table, first, limit)
        pinned = delta._pins.get(table)
        firsts[table] = first if pinned is None else min(first, pinned.version)
        assert firsts[table] <= delta.newest(spark, table).version
        return reads

    monkeypatch.setattr(Tables, "stream", noting)
    return firsts


@pytest.fixture
def shop(spark: SparkSession, catalog: str, tmp_path: Path) -> Callable[[], Application]:
    """A function that opens the application. A second call restarts it."""
    return lambda: opened(spark, tmp_path, "shop", SHOP + ADD % "first" + ADD % "second", catalog)


class AnHourLater(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + timedelta(hours=1)


def documented_statements(text: str = r"\*\*(\d+) statements\*\*") -> int:
    """The number of statements of a run of a join with nothing new, or of the run that a text describes."""
    (number,) = re.findall(text, DOCUMENT.read_text())
    return int(number)


def produce(app: Application, topic: str, **values: Any) -> None:
    app.topic(topic).produce([{"key": key, "value": value} for key, value in values.items()])


@pytest.mark.further
def test_a_run_reads_only_tables_with_new_commits_from_there_on_and_agents_that_share_a_table_lose_no_count(
    shop: Callable[[], Application], spark: SparkSession, catalog: str, streamed: dict[str, int], tmp_path: Path
) -> None:
    """The files of a commit may be gone when the next commit comes a long time later.

    A run that finds nothing new makes as many statements as the documentation says, and takes no lease.
    """
    app = shop()
    app.table("products").put({"P1": {"price": 1}, "P2": {"price": 2}})
    app.table("orders").put({f"O{number}": {"product": f"P{1 + number % 2}"} for number in range(8)})
    app.run()
    assert prices(app) == {f"O{number}": 1 + number % 2 for number in range(8)}
    assert app.table("totals").to_dict() == {"all": 2 * 12}
    next_versions = {table: app.delta.newest(spark, table).version + 1 for table in ("products", CHANNEL)}
    assert app.waiting_since() == {}
    streamed.clear()
    with noted_statements() as asked:
        again = Application.open(warehouse=catalog, spark=spark)  # its manifests are in the catalog
        assert again.plan.application == "shop"
        assert not again.run(only=["join/priced"]).resources
        assert again.waiting_since() == {}
    assert len(asked) == documented_statements(), "\n".join(asked)
    with noted_statements() as asked:
        again = Application.open(warehouse=catalog, spark=spark)
        assert not again.run().resources
    assert len(asked) == documented_statements(), "\n".join(asked)
    assert streamed == {}
    assert not [*(tmp_path / "volume" / "_locks").iterdir()]
    again.table("products").put({"P1": {"price": 3}})
    again.run()
    assert streamed == next_versions
    assert prices(again) == {f"O{number}": 2 if number % 2 else 3 for number in range(8)}
    assert again.table("totals").to_dict() == {"all": 2 * (12 + 4 * 3)}


OF_OTHERS = """
KasprApp/shop: {{}}
KasprTable/wares: {{source: {{table: {schema}.stock, key: [id]}}}}
KasprTable/orders: {{schema: "number STRING, ware STRING", key: number}}
KasprJoin/priced: {{leftTable: orders, rightTable: wares, column: ware}}
KasprTable/pieces: {{from: {{table: wares}}, groupBy: {{python: "def one(value): return 1"}}, count: {{}}}}
"""


@pytest.mark.further
def test_a_run_with_nothing_new_asks_nothing_about_tables_of_others(
    spark: SparkSession, catalog: str, tmp_path: Path
) -> None:
    """Without news nothing is read from them. With news they are looked at before it is read."""

    def open_again() -> Application:
        return Application.open(warehouse=catalog, spark=spark, trusting=True)

    def set_pieces(number: int) -> None:
        spark.sql(f"UPDATE {stock} SET pieces = {number} WHERE id = 'W1'")  # noqa: S608

    schema = catalog.removeprefix("unity://").partition("/")[0]
    stock = f"{schema}.stock"
    app = opened(spark, tmp_path, "shop", OF_OTHERS.format(schema=schema), catalog)
    app.delta.create(spark, "stock", Layout("id STRING, pieces INT", change_feed=True))
    spark.sql(f"INSERT INTO {stock} VALUES ('W1', 1), ('W2', 2)")  # noqa: S608
    app.table("orders").put({"O1": {"ware": "W1"}})
    app.run()
    assert app.join("priced").to_dict()["O1"]["right"]["pieces"] == 1
    open_again().run()  # the channel has columns now
    with noted_statements() as asked:
        assert not open_again().run().resources
    assert len(asked) == documented_statements(), "\n".join(asked)
    set_pieces(3)
    again = open_again()
    with noted_statements() as asked:
        again.run()
    assert any("DESCRIBE TABLE EXTENDED" in one for one in asked)
    assert again.join("priced").to_dict()["O1"]["right"]["pieces"] == 3

    set_pieces(4)
    spark.sql(f"ALTER TABLE {stock} SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    again = open_again()
    assert not again.plan.waiting
    again.run()
    assert {str(ref) for ref, _ in again.plan.waiting} >= {"table/wares", "join/priced", "table/pieces"}
    assert again.join("priced").to_dict()["O1"]["right"]["pieces"] == 3
    assert {str(ref) for ref, _ in open_again().plan.waiting} >= {"table/wares", "join/priced"}
    spark.sql(f"ALTER TABLE {stock} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    set_pieces(5)
    again = open_again()
    assert not again.plan.waiting
    for resource in ("join/priced", "table/pieces"):  # the feed was off for some versions
        again.rebuild(resource)
    assert again.join("priced").to_dict()["O1"]["right"]["pieces"] == 5
    numbered = "KasprJoin/numbered: {leftTable: wares, rightTable: orders, column: number}\n"
    app = opened(spark, tmp_path, "shop", OF_OTHERS.format(schema=schema) + numbered, catalog)
    assert [str(ref) for ref, _ in app.plan.waiting] == ["join/numbered"]
    spark.sql(f"ALTER TABLE {stock} ADD COLUMNS (number STRING)")
    again = open_again()
    again.run()
    assert not again.plan.waiting, "a run looks at the table for which a join waits"


BY_THE_CLOCK = """
KasprAgent/pairs:
  input: {topic: {name: clicks}, take: {max: 2, within: 1h}}
  processors: {pipeline: [last], operations: [{name: last, map: {python: "def last(values): return values[-1]"}}]}
  output: {topics: [{name: last}]}
KasprTable/people: {extraTopicConfigs: {cleanup.policy: delete, retention.ms: "86400000"}}
KasprJoin/visits: {leftStream: {topic: views}, rightTable: people, on: key, type: inner, pending: {ttl: 1h}}
"""


@pytest.mark.further
def test_a_run_in_which_the_clock_has_made_nothing_due_finds_nothing(
    spark: SparkSession, catalog: str, tmp_path: Path
) -> None:
    """A record waits for an hour for its row of the table. Rows of the table stay for a day."""
    app = opened(spark, tmp_path, "clocked", BY_THE_CLOCK, catalog)
    produce(app, "clicks", ada=1, bob=2, cy=3)
    produce(app, "views", ada="/")
    app.run()
    assert values_of(app, "last") == [2, 3], "a run that ends waits for no other records"
    app.table("people").put({"bob": {"name": "Bob"}})
    app.run()
    with noted_statements() as asked:
        assert not Application.open(warehouse=catalog, spark=spark).run().resources
    assert len(asked) == documented_statements(), "\n".join(asked)
    with noted_statements() as asked, time_machine.travel(time.time() + 3_600):
        assert Application.open(warehouse=catalog, spark=spark).run().resources.keys() == {"join/visits"}
    assert len(asked) > documented_statements()
    with time_machine.travel(time.time() + 25 * 3_600):
        app.run()
    assert app.table("people").to_dict() == {}


@pytest.mark.further
def test_a_run_that_finds_nothing_new_looks_for_files_of_a_bound_topic(
    spark: SparkSession, catalog: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UnityNamespace, "on_databricks", False)  # only there is Auto Loader
    (files := tmp_path / "lines").mkdir()
    bound = f"""
KasprApp/bound: {{topics: {{lines: {{files: {{path: {files}, format: json}}}}}}}}
KasprAgent/copy: {{input: {{topic: {{name: lines}}}}, output: {{topics: [{{name: copied}}]}}}}
"""
    app = opened(spark, tmp_path, "bound", bound, catalog)
    for number in range(2):
        (files / f"{number}.json").write_text(json.dumps({"n": number}))
        report = Application.open(warehouse=catalog, spark=spark, trusting=True).run()
        assert report.resources["topic/lines"].rows_in == report.resources["agent/copy"].rows_in == 1
        with noted_statements() as asked:
            assert not Application.open(warehouse=catalog, spark=spark, trusting=True).run().resources
        asked = [one for one in asked if "databaseExists" not in one]  # nor does Databricks ask for the schema
        documented = documented_statements() - 1 + documented_statements(r"an input \| (\d+) ")
        assert len(asked) == documented, "\n".join(asked)
    assert values_of(app, "copied") == [{"n": 0}, {"n": 1}]
    (files / "broken.json").write_text("{")
    report = Application.open(warehouse=catalog, spark=spark, trusting=True).run()
    assert report.fruitless == ("topic/lines",), "nothing else has news"
    (files / "more.json").write_text(json.dumps({"n": 2}))
    alone = Application.open(warehouse=catalog, spark=spark, trusting=True).run(only=["topic/lines"])
    assert {name: one.rows_in for name, one in alone.resources.items()} == {"topic/lines": 1}


def test_a_run_with_one_changed_row_or_none_makes_as_many_statements_as_the_documentation_says(
    shop: Callable[[], Application], spark: SparkSession, catalog: str
) -> None:
    app = shop()
    app.table("products").put({"P1": {"price": 1}, "P2": {"price": 2}})
    app.table("orders").put({"O1": {"product": "P1"}})
    app.run(only=["join/priced"])
    with noted_statements() as asked:
        assert not Application.open(warehouse=catalog, spark=spark).run(only=["join/priced"]).resources
    assert len(asked) == documented_statements(), "\n".join(asked)
    app.table("orders").put({"O1": {"product": "P2"}})
    with noted_statements() as asked:
        app.run(only=["join/priced"])
    assert prices(app) == {"O1": 2}
    assert len(asked) == documented_statements(r"makes (\d+) statements"), "\n".join(asked)
    app.table("products").put({"P2": {"price": 3}})
    if ON_CONNECT in os.environ:  # the batch is in the server's process
        app.run(only=["join/priced"])
        return
    with mock.patch("kaspr_delta.engine.batch.batch.datetime", AnHourLater):
        app.run(only=["join/priced"])
    longest = {row.resource: row.minutes for row in app.sql(DATASETS["delays"][1]).collect()}
    (shown,) = app.sql(DATASETS["resources"][1]).collect()
    assert longest.keys() == {"join/priced"}
    assert app.status().resources  # the counter of a delay is no cost of a batch
    assert 60 <= float(longest["join/priced"]) < 75
    assert shown.delay_in_minutes == longest["join/priced"]
    app.table("products").put({"P2": {"price": 4}})
    app.run(only=["join/priced"])
    (shown,) = app.sql(DATASETS["resources"][1]).collect()
    assert shown.delay_in_minutes < 15


CLICKS = """\
KasprApp/clicks: {}
KasprTable/clicks-per-page: {name: clicks-per-page, from: {topic: clicks}, count: {}}
"""


def test_feeds_tell_new_rows_and_another_table_of_the_same_version(spark: SparkSession, catalog: str) -> None:
    tables = open_tables(Warehouse(catalog).namespace("shop"))
    tables.create_schema(spark)

    def load(name: str, *numbers: int) -> None:
        tables.create(spark, name, NUMBERS)
        rows = spark.createDataFrame([(number,) for number in numbers], NUMBERS.columns)
        tables.append(spark, rows, name)

    names = ["same", "deleted", "commented", "reloaded", "dropped"]
    for name in names:
        load(name, 1, 2)
        load(name, 3)
    read = {name: tables.newest(spark, name) for name in names}
    assert not tables.changed_since(spark, read)
    tables.delete(spark, "deleted", "number = 2")
    spark.sql(f"COMMENT ON TABLE {tables.namespace.identifier('commented')} IS 'a commit without rows'")
    tables.drop(spark, "reloaded")
    load("reloaded", 1, 2)
    load("reloaded", 3)
    assert tables.newest(spark, "commented").version == read["commented"].version + 1
    assert set(tables.changed_since(spark, read)) == {"deleted", "reloaded"}
    tables.drop(spark, "dropped")
    assert set(tables.changed_since(spark, read)) == set(names)


@pytest.mark.slow
def test_a_record_that_comes_while_a_stream_starts_is_processed_once(
    spark: SparkSession, catalog: str, tmp_path: Path
) -> None:
    """The stream reads the record, although its commit is newer than the versions that were noted before."""
    app = opened(spark, tmp_path, "clicks", CLICKS, catalog)
    late = [{"page": "late"}]
    stream = Tables.stream

    def later(delta: Tables, spark: SparkSession, table: str, first: int, limit: str | None = None) -> DataFrame:
        while late:
            produce(app, "clicks", all=late.pop())
        return stream(delta, spark, table, first, limit)

    produce(app, "clicks", all={"page": "early"})
    with mock.patch.object(Tables, "stream", later):
        app.run()
    assert not late
    produce(app, "clicks", all={"page": "next"})
    app.run()
    assert app.table("clicks-per-page").to_dict() == {"all": 3}


@pytest.mark.slow
def test_a_row_that_comes_while_a_stream_starts_is_joined_as_it_is_by_then(
    shop: Callable[[], Application], spark: SparkSession
) -> None:
    """The stream reads the row, but the version that was pinned as it started does not have it."""
    app = shop()
    app.table("products").put({"P1": {"price": 1}, "P2": {"price": 2}})
    app.table("orders").put({f"O{number}": {"product": f"P{1 + number % 2}"} for number in range(4)})
    app.run(only=["join/priced"])
    app.table("products").put({"P2": {"price": 20}})
    late = [{"P1": {"price": 100}}]
    stream = Tables.stream

    def later(delta: Tables, spark: SparkSession, table: str, first: int, limit: str | None = None) -> DataFrame:
        while late:
            app.table("products").put(late.pop())
        return stream(delta, spark, table, first, limit)

    with mock.patch.object(Tables, "stream", later):
        app.run(only=["join/priced"])
    assert not late
    expected = {f"O{number}": 20 if number % 2 else 100 for number in range(4)}
    assert prices(app) == expected
    again = shop()
    again.run(only=["join/priced"])
    assert prices(again) == expected
    assert again.delta.read(spark, CHANNEL).where("kind = 'value'").count() == 8  # nothing is emitted twice


@pytest.mark.slow
def test_a_continuous_run_reads_the_files_of_a_bound_topic(
    spark: SparkSession, catalog: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UnityNamespace, "on_databricks", False)  # only there is Auto Loader
    files = tmp_path / "lines"
    files.mkdir()
    bound = f"KasprApp/bound: {{topics: {{lines: {{files: {{path: {files}, format: json}}}}}}}}"
    app = opened(spark, tmp_path, "bound", bound, catalog)
    with running(app) as failures:
        for number in range(3):
            (files / f"{number}.json").write_text(json.dumps({"n": number}))
            wait_until(lambda: len(list(app.topic("lines").records())) > number, failures, 60)  # noqa: B023


@pytest.mark.slow
@pytest.mark.skipif(EXTERNAL in os.environ, reason="the folder of an external table stays, and it is the same table")
def test_a_replaced_table_stops_the_join_until_a_rebuild(shop: Callable[[], Application], spark: SparkSession) -> None:
    app = shop()
    app.table("products").put({"P1": {"price": 1}})
    app.table("orders").put({"O1": {"product": "P1"}})
    app.run()
    app.delta.drop(spark, "products")
    app = shop()
    app.table("products").put({"P1": {"price": 3}})
    with pytest.raises(ResourceFailedError, match=r"(?s)join/priced.*replaced.*kaspr-delta rebuild"):
        app.run()
    app.rebuild("join/priced")
    app.run()
    assert prices(app) == {"O1": 3}


@pytest.mark.slow
def test_the_current_view_of_a_join_shows_its_new_result_and_after_the_rebuild_the_stored_one(
    spark: SparkSession, catalog: str, tmp_path: Path
) -> None:
    manifests = SHOP.replace("rightTable: products", "rightTable: products\n  onChange: side-by-side")
    app = opened(spark, tmp_path, "shop", manifests, catalog)
    app.table("products").put({"P1": {"price": 1}, "P2": {"price": 2}})
    app.table("orders").put({"O1": {"product": "P1", "other": "P2"}, "O2": {"product": "P2", "other": "P9"}})
    app.run()
    app = opened(spark, tmp_path, "shop", manifests.replace("['product']", "['other']"), catalog)
    shown = [current_prices(app)]
    turns: list[tuple[Literal["new", "old"], int]] = [("new", 2), ("old", 0), ("new", 2)]
    for result, rows in turns:
        assert app.show("join/priced", result) == rows
        shown.append(current_prices(app))
    app.rebuild("join/priced")
    assert [*shown, current_prices(app)] == [old := {"O1": 1, "O2": 2}, new := {"O1": 2}, old, new, new]
    assert prices(app) == new


def current_prices(app: Application) -> dict[str, int]:
    """The prices in the current view."""
    rows = app.sql("SELECT key, right FROM current__priced").collect()
    return {json.loads(row["key"]): json.loads(row["right"])["price"] for row in rows}


# Seconds for which a continuous run runs at most.
_A_WHILE = 10.0


class DiedError(Exception):
    """Raised in place of a kill: the process holds the session's catalog."""


def run_that_dies(app: Application, at: int, *, continuous: bool) -> bool:
    """Run, and die before the write with this number: no later one is made. Returns whether the run died."""
    written, died = itertools.count(), threading.Event()

    def watch(_: object, moment: str) -> None:
        if moment == "before" and next(written) >= at:
            died.set()
            raise DiedError

    with watched_writes(watch), contextlib.suppress(DiedError, ResourceFailedError):
        if continuous and ON_CONNECT not in os.environ:
            with running(app):
                died.wait(_A_WHILE)
        else:
            app.run()
    return died.is_set()


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize("seed", range(2))
def test_every_shape_has_the_same_outcome_in_a_catalog_as_in_a_folder(
    spark: SparkSession, tmp_path: Path, catalog: str, seed: int
) -> None:
    """Also if runs come between the writes of a wave, and if they die at a random write. Some are continuous."""
    dice = random.Random(seed)  # noqa: S311  no secret
    expected = Application.open(shapes.SHAPES, warehouse=tmp_path / "folder", spark=spark)
    app = Application.open(shapes.SHAPES, warehouse=catalog, spark=spark)
    died = 0

    def maybe_run() -> None:
        nonlocal app, died
        if dice.random() < 0.4:
            died += run_that_dies(app, dice.randrange(12), continuous=dice.random() < 0.5)
            app = Application.open(shapes.SHAPES, warehouse=catalog, spark=spark)
        if dice.random() < 0.6:
            app.run()

    for wave in range(1, shapes.LAST_WAVE + 1):
        shapes.write_wave(expected, wave)
        expected.run()
        with after_each(TopicHandle, maybe_run), after_each(ChangelogHandle, maybe_run):
            shapes.write_wave(app, wave)
        app.run()
    assert died
    # Not compared, because runs between the writes of a wave change them: the channels of joins of tables, which
    # ``outcome`` has folded and compared with the results, and the times of groups.
    not_compared = {f"channel of {join.name}" for join in app.plan.joins if isinstance(join, TableTableJoinPlan)}
    not_compared |= {made.group_times for made in app.plan.aggregations if isinstance(made.origin, str)}
    found, wanted = shapes.outcome(app), shapes.outcome(expected)
    for contents in (found, wanted):  # a failing row that is read again after a run died is a dead letter again
        contents["dead"] = set(contents["dead"])
    assert set(found) == set(wanted)
    assert {
        name: (found[name], wanted[name]) for name in set(found) - not_compared if found[name] != wanted[name]
    } == {}


def after_each(handle: type[TopicHandle | ChangelogHandle], action: Callable[[], None]) -> Any:
    """Call ``action`` after each call of ``produce``."""
    produce = handle.produce

    def produced(self: Any, records: Any) -> int:
        count = produce(self, records)
        action()
        return count

    return mock.patch.object(handle, "produce", produced)

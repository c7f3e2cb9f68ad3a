"""Streams of a continuous run over tables of a catalog: they go on, and begin anew only for news of another table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from pyspark.sql import DataFrame, SparkSession

from kaspr_delta import Application
from kaspr_delta.engine.batch import new_stream
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan
from kaspr_delta.storage.tables import Tables
from tests.connect import ON_CONNECT
from tests.continuous import running, wait_until
from tests.manifests import opened
from tests.spark.priced import PRICED, prices
from tests.spark.statements import noted_statements

SHOP = PRICED + "  outputChannel: priced\n"
JOIN = ["join/priced"]
CHANNEL = "channel__priced"

pytestmark = [
    pytest.mark.further,
    pytest.mark.skipif(ON_CONNECT in os.environ, reason="a server runs streams that end"),
]


@pytest.fixture
def shop(spark: SparkSession, catalog: str, tmp_path: Path) -> Callable[[], Application]:
    """A function that opens the application, which has joined an order with a product. A second call restarts it."""

    def open_it() -> Application:
        return opened(spark, tmp_path, "shop", SHOP, catalog)

    app = open_it()
    app.table("products").put({"P1": {"price": 1}, "P2": {"price": 2}})
    app.table("orders").put({"O0": {"product": "P1"}})
    app.run()
    return open_it


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables over which streams were started."""
    tables: list[str] = []
    stream = Tables.stream

    def noting(delta: Tables, spark: SparkSession, table: str, first: int, limit: str | None = None) -> DataFrame:
        tables.append(table)
        return stream(delta, spark, table, first, limit)

    monkeypatch.setattr(Tables, "stream", noting)
    return tables


def emissions(app: Application) -> list[tuple[str, int]]:
    """The keys and prices on the channel."""
    rows = app.delta.read(app.spark, CHANNEL).where("kind = 'value'").select("key", "right").collect()
    return sorted((json.loads(row["key"]), json.loads(row["right"])["price"]) for row in rows)


def test_a_stream_goes_on_until_another_table_has_news(
    shop: Callable[[], Application], spark: SparkSession, started: list[str]
) -> None:
    """Each change is on the channel at once, batches share a fold, and a run that follows finds nothing to do."""
    app = shop()
    join = app.plan.join("priced")
    assert isinstance(join, ForeignKeyJoinPlan)
    before = {table: app.delta.newest(spark, table).version for table in (join.result, join.subscriptions)}
    expected = {"O0": 1}
    with running(app, only=JOIN) as failures:
        for number in range(1, 6):
            app.table("orders").put({f"O{number}": {"product": f"P{1 + number % 2}"}})
            expected[f"O{number}"] = 1 + number % 2
            wait_until(lambda: len(emissions(app)) == len(expected), failures)
        assert started == ["orders"]
        app.table("products").put({"P3": {"price": 3}})
        app.table("orders").put({"O6": {"product": "P3"}})
        expected["O6"] = 3
        wait_until(lambda: len(emissions(app)) == len(expected), failures)
        wait_until(lambda: started == ["orders", "orders", "products"], failures)
        with noted_statements() as asked:
            app.table("products").put({"P3": {"price": 4}})
            wait_until(lambda: len(emissions(app)) == len(expected) + 1, failures)
        assert started == ["orders", "orders", "products"]
        assert not [statement for statement in asked if "DESCRIBE HISTORY" in statement and "LIMIT 20" in statement]
    assert emissions(app) == sorted([*expected.items(), ("O6", 4)])
    assert prices(app) == expected | {"O6": 4}
    merges = {table: app.delta.newest(spark, table).version - version for table, version in before.items()}
    assert merges[join.result] < 7
    assert merges[join.subscriptions] == 2  # one for each stream
    again = shop()
    assert not again.run(only=JOIN).resources


def test_streams_that_begin_anew_all_the_time_lose_and_repeat_nothing(
    shop: Callable[[], Application], started: list[str]
) -> None:
    app = shop()
    with mock.patch.object(new_stream, "_LONG", 0.0), running(app, only=JOIN) as failures:
        for number in range(4):
            app.table("orders").put({f"O{number}": {"product": "P2"}})
            app.table("products").put({"P2": {"price": 10 + number}})
            wait_until(partial(has_price, app, 10 + number), failures)
    assert len(started) > 4
    assert prices(app) == dict.fromkeys(["O0", "O1", "O2", "O3"], 13)
    found = emissions(app)
    assert len(found) == len(set(found))
    assert not shop().run(only=JOIN).resources


def has_price(app: Application, price: int) -> bool:
    return any(found == price for _, found in emissions(app))


def test_a_table_without_news_is_not_read_again(
    shop: Callable[[], Application], spark: SparkSession, started: list[str]
) -> None:
    """VACUUM may have removed the files of its last commit."""
    app = shop()
    app.table("products").put({"P1": {"price": 5}})
    app.run()
    place = spark.sql(f"DESCRIBE DETAIL {app.delta.namespace.identifier('products')}").first()
    assert place is not None
    folder = Path(place["location"].removeprefix("file:"))
    files = [*folder.rglob("cdc-*.parquet")]
    assert files
    for file in files:
        file.unlink()
    started.clear()
    with running(app, only=JOIN) as failures:
        app.table("orders").put({"O1": {"product": "P1"}})
        wait_until(lambda: ("O1", 5) in emissions(app), failures)
        assert started == ["orders"]
    assert prices(app) == {"O0": 5, "O1": 5}

"""A clock that jumps changes nothing but the times that are shown."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import time_machine
from pyspark.sql import SparkSession

from kaspr_delta import Application, ResourceFailedError
from tests.continuous import running, wait_until
from tests.limits import set_limits
from tests.manifests import opened
from tests.spark.channels import values_of

HOUR = 3_600
AGENT = """
KasprAgent/forward:
  input: {topic: {name: "TOPICS"}}
  output: {topics: [{name: out}]}
"""
TAKE = """
KasprAgent/together:
  input: {topic: {name: clicks}, take: {max: 100, within: 3s}}
  processors:
    pipeline: [collect]
    operations: [{name: collect, map: {python: "def collect(values): return values"}}]
  output: {topics: [{name: groups}]}
"""
JOIN = """
KasprTable/orders: {name: orders}
KasprTable/products: {name: products}
KasprJoin/priced:
  leftTable: orders
  rightTable: products
  extractor: {python: "def extract(order): return order['product']"}
"""


@contextlib.contextmanager
def clock_off_by(seconds: float) -> Iterator[None]:
    with time_machine.travel(time.time() + seconds):
        yield


def open_app(spark: SparkSession, folder: Path, *manifests: str) -> Application:
    return opened(spark, folder, "clocks", "".join(manifests))


def open_reader(spark: SparkSession, folder: Path, topics: str) -> Application:
    return open_app(spark, folder, AGENT.replace("TOPICS", topics))


@pytest.mark.slow
@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_an_agent_whose_topics_change_reads_each_record_once(spark: SparkSession, tmp_path: Path, jump: float) -> None:
    app = open_reader(spark, tmp_path, "a")
    app.topic("a").produce([{"value": number} for number in range(3)])
    app.run()
    with clock_off_by(jump):
        app = open_reader(spark, tmp_path, "a, b")
        app.topic("b").produce([{"value": 100}])
        app.run()
        app.topic("b").produce([{"value": 101}])
        app.run()
    app = open_reader(spark, tmp_path, "a, b, c")
    app.topic("c").produce([{"value": 200}])
    app.run()
    app.run()
    assert values_of(app, "out") == [0, 1, 2, 100, 101, 200]


@pytest.mark.slow
def test_a_join_rebuilt_under_an_older_clock_processes_later_changes(spark: SparkSession, tmp_path: Path) -> None:
    app = open_app(spark, tmp_path, JOIN)
    app.table("products").put({"P1": 1, "P2": 2})
    app.table("orders").put({"O1": {"product": "P1", "other": "P2"}})
    app.run()
    with clock_off_by(-HOUR):
        changed = open_app(spark, tmp_path, JOIN.replace("order['product']", "order['other']"))
        with pytest.raises(ResourceFailedError, match="rebuild"):
            changed.run()
        assert changed.rebuild("join/priced").rows_out == 1
        changed.table("products").put({"P2": 22})
        assert changed.run().rows_out == 1  # reported, although its batches have older times
    changed.run()
    assert {key: row["right"] for key, row in changed.join("priced").rows()} == {"O1": 22}


def test_the_status_shows_the_batch_that_was_committed_last(spark: SparkSession, tmp_path: Path) -> None:
    app = open_reader(spark, tmp_path, "a")
    app.topic("a").produce([{"value": number} for number in range(5)])
    app.run()
    with clock_off_by(-HOUR):
        app.topic("a").produce([{"value": 5}])
        app.run()
    (status,) = [one for one in app.status().resources if str(one.resource) == "agent/forward"]
    assert status.rows_in == 6
    assert status.last is not None
    assert status.last.rows_in == 1


@pytest.mark.slow
def test_take_waits_no_longer_than_within_if_the_clock_is_put_back(spark: SparkSession, tmp_path: Path) -> None:
    app = open_app(spark, tmp_path, TAKE)
    app.topic("clicks").produce([{"value": 1}, {"value": 2}])
    with time_machine.travel(time.time() + HOUR) as clock, running(app) as failures:
        wait_until(lambda: any("since" in memo and '"since": null' not in memo for memo in memos(app)), failures)
        clock.move_to(time.time() - HOUR)
        wait_until(lambda: values_of(app, "groups"), failures)
    assert values_of(app, "groups") == [[1, 2]]


def memos(app: Application) -> list[str]:
    rows = app.delta.read(app.spark, "log__together").where("memo IS NOT NULL").select("memo").collect()
    return [row["memo"] for row in rows]


PENDING = """
KasprTable/products: {name: products, extraTopicConfigs: {cleanup.policy: delete, retention.ms: "86400000"}}
KasprJoin/shown: {leftStream: {topic: views}, rightTable: products, on: key, type: left, pending: {ttl: 1h}}
"""


@pytest.mark.further
def test_a_pending_record_is_emitted_once_if_the_clock_goes_back_and_forward(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = open_app(spark, tmp_path, PENDING)
    app.topic("views").produce([{"key": "P1", "value": 1}, {"key": "P2", "value": 2}])
    app.run()
    with clock_off_by(-24 * HOUR):
        app.table("products").put({"P1": "Widget"})
        app.run()
        met = {"P1": {"left": 1, "right": "Widget"}}
        assert {record["key"]: record["value"] for record in app.channel("shown-channel").records()} == met
    for hours in (2, -2):
        with clock_off_by(hours * HOUR):
            app.run()
    records = app.channel("shown-channel").records()
    alone = {"left": 2, "right": None}
    assert [(record["key"], record["value"]) for record in records] == [*met.items(), ("P2", alone)]


@pytest.mark.slow
def test_rows_stay_for_their_retention_even_if_the_clock_was_behind(spark: SparkSession, tmp_path: Path) -> None:
    app = open_app(spark, tmp_path, PENDING)
    app.table("products").put({"P1": "Widget"})
    for hours, kept in ((-1_000, 1), (23, 1), (25, 0)):
        with clock_off_by(hours * HOUR):
            app.run()
        assert len(app.table("products").to_dict()) == kept


def test_progress_summed_up_by_a_clock_that_is_ahead_keeps_its_counts(spark: SparkSession, tmp_path: Path) -> None:
    app = set_limits(open_reader(spark, tmp_path, "a"), old_progress=1)
    for number in range(2):
        app.topic("a").produce([{"value": number}])
        app.run()
    with clock_off_by(40 * 24 * HOUR):
        app.run()
    app.topic("a").produce([{"value": 2}])
    assert app.run().resources["agent/forward"].rows_in == 1
    (status,) = [one for one in app.status().resources if str(one.resource) == "agent/forward"]
    assert status.rows_in == 3
    assert values_of(app, "out") == [0, 1, 2]

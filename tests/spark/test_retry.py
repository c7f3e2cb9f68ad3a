"""Dead letters of real runs are retried without Spark, and the next run processes their records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.control.dead_letters import letters_in
from kaspr_delta.control.retry import RetryableDeadLetters
from kaspr_delta.engine.rows.sequence import seq_of
from kaspr_delta.engine.streams.source import channel_records, topic_records
from kaspr_delta.plan.definition.resources import ChannelInput
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import CHANNEL, DEAD_LETTERS, EVENTS, RETRY_FOR, SYSTEM, TOPIC, kind_for
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.system_tables import SessionSystemTables
from kaspr_delta.storage.tables import Tables
from tests.folders import delta_rs
from tests.manifests import plan_of_bundle
from tests.spark.channels import values_of
from tests.unit.control.test_dead_letters import AT, HEADERS, NOW, VALUE

APPLICATION = Path(__file__).parent / "applications" / "retry.yaml"
TOPIC_TABLE, CHANNEL_TABLE = "topic__raw_orders", "channel__orders_products_joined"
FOR_ONE = Path(__file__).parent / "applications" / "retry_for_one.yaml"


def test_each_reader_of_a_topic_gets_only_its_own_retried_records_unmarked(spark: SparkSession) -> None:
    """A reader without a name, such as `consume`, sees no record that is for one reader."""
    marks = {
        1: None,
        2: [{"key": "trace", "value": b"x"}],
        3: [{"key": "trace", "value": b"x"}, {"key": RETRY_FOR, "value": b"agent/a"}],
        4: [{"key": RETRY_FOR, "value": b"agent/b"}],
        5: [{"key": RETRY_FOR, "value": None}],
    }
    feed = spark.createDataFrame(
        [(b"k", b"v", mark, None, 0, seq, "insert", 1, None) for seq, mark in marks.items()],
        f"{TOPIC.columns}, _change_type STRING, _commit_version BIGINT, _commit_timestamp TIMESTAMP",
    )

    def seen(reader: str | None) -> dict[int, list[str] | None]:
        rows = topic_records(feed, "t", reader).orderBy("offset").collect()
        headers = {seq_of(row["offset"]): row["headers"] for row in rows}
        return {seq: None if found is None else [header["key"] for header in found] for seq, found in headers.items()}

    assert seen("agent/a") == {1: None, 2: ["trace"], 3: ["trace"]}
    assert seen("agent/b") == {1: None, 2: ["trace"], 4: []}
    assert seen(None) == {1: None, 2: ["trace"]}


def test_each_reader_of_a_channel_gets_only_its_own_retried_records(spark: SparkSession) -> None:
    kinds = ["value", "tombstone", "state", *(kind_for(kind, "agent/a") for kind in ("value", "tombstone"))]
    feed = spark.createDataFrame(
        [("1", kind, "{}", None, None, seq, "insert", 1, None) for seq, kind in enumerate(kinds)],
        "key STRING, kind STRING, left STRING, right STRING, timestamp TIMESTAMP, seq BIGINT, _change_type STRING,"
        " _commit_version BIGINT, _commit_timestamp TIMESTAMP",
    )

    def seen(reader: str, *, tombstones: bool) -> list[bytes | None]:
        channel = ChannelInput("c", "j", tombstones, "earliest")
        records = channel_records(feed, channel, reader, 1, (None, None))
        return [row["value"] for row in records.orderBy("offset").collect()]

    value = b'{"left":"{}","right":null}'
    assert seen("agent/a", tombstones=True) == [value, None, value, None]
    assert seen("agent/a", tombstones=False) == [value, value]
    assert seen("agent/b", tombstones=True) == [value, None]


@pytest.mark.further
def test_a_retry_over_a_catalog_sends_each_record_once(spark: SparkSession, catalog: str) -> None:
    """Two failed batches of a topic, and one of a channel. One letter's record is gone, and its letter stays."""
    tables = Tables(Warehouse(catalog).namespace("order_system"))
    tables.create_schema(spark)
    for table, layout in {TOPIC_TABLE: TOPIC, CHANNEL_TABLE: CHANNEL, **SYSTEM}.items():
        tables.create(spark, table, layout)
    sent = [(b'"O1"', VALUE), (b'"O2"', VALUE), (b"\xff", None)]
    rows = [{"key": key, "value": value, "timestamp": AT, "headers": HEADERS, "partition": 1} for key, value in sent]
    tables.append(spark, pa.Table.from_pylist(rows, arrow_schema(TOPIC.columns)), TOPIC_TABLE)
    emitted = {"key": "1", "kind": "value", "left": "{}", "right": "1", "timestamp": AT, "checkpoint": "1", "batch": 1}
    tables.append(spark, pa.Table.from_pylist([emitted], arrow_schema(CHANNEL.columns)), CHANNEL_TABLE)
    topic, channel = ("agent/ingest-orders", "raw-orders"), ("agent/process-enriched-orders", "orders-products-joined")
    failed = [
        (*topic, '"O1"', VALUE.decode(), "failed", "it's {2}", AT, 4, NOW),
        (*topic, '"O2"', VALUE.decode(), "failed", None, AT, 5, NOW),
        (*topic, "\ufffd", None, "failed", None, AT, 5, NOW),
        (*topic, "gone", None, "failed", None, None, 5, NOW),
        (*channel, "1", '{"left":{},"right":1}', "failed", None, AT, 1, NOW),
    ]
    system = SessionSystemTables(spark, tables)
    system.append(DEAD_LETTERS, failed)
    letters = RetryableDeadLetters(SessionSystemTables(spark, tables), plan_of_bundle("order-system"))
    retried = letters.retry(letters.newest(10), "ann", only_failed=True)
    assert {origin.name: count for origin, count in retried.records.items()} == {
        "raw-orders": 3,
        "orders-products-joined": 1,
    }
    assert [letter.key for letter in retried.lost] == [letter.key for letter in letters.newest(10)] == ["gone"]
    assert letters_in(system.query) == {topic: 1}
    marked = {"key": RETRY_FOR, "value": topic[0].encode()}
    again = letters.tables.having(TOPIC_TABLE, ["key", "value", "headers"], "seq IS NOT NULL")
    assert sorted((row["key"], row["value"]) for row in again) == sorted(sent)
    assert [row["headers"] for row in again] == [[*HEADERS, marked]] * 3
    (one,) = letters.tables.having(CHANNEL_TABLE, ["key", "kind", "left", "right", "timestamp"], "checkpoint IS NULL")
    assert list(one.values()) == ["1", kind_for("value", channel[0]), "{}", "1", AT]
    assert sum(event["reason"] == "DeadLetterRetried" for event in system.rows(EVENTS)) == 2
    system.append(DEAD_LETTERS, failed)  # as if the process had died before the letters were removed
    letters.retry(letters.newest(10), only_failed=True)
    assert (tables.count(spark, TOPIC_TABLE), tables.count(spark, CHANNEL_TABLE)) == (6, 2)


@pytest.mark.slow
@pytest.mark.usefixtures("tables_with_own_ids")
def test_a_record_retried_after_the_cause_is_repaired_is_processed_once(spark: SparkSession, tmp_path: Path) -> None:
    with Application.open(APPLICATION, warehouse=tmp_path / "wh", spark=spark) as app:
        letters = RetryableDeadLetters(NativeSystemTables(delta_rs(app.delta.namespace)), app.plan)
        app.table("rates").put({"EUR": 1})
        app.topic("amounts").produce(
            [
                {"key": "A1", "value": {"amount": 2, "currency": "EUR"}, "timestamp": 1},
                {"key": "A2", "value": {"amount": 3, "currency": "USD"}, "timestamp": 2, "headers": {"trace": "x"}},
            ]
        )
        app.table("products").put({"P": {"price": 5}})
        app.table("orders").put({n: {"product": "P", "currency": currency} for n, currency in ((1, "EUR"), (2, "USD"))})
        app.run()
        assert [letter["source"] for letter in app.dead_letters()] == ["amounts", "priced-orders"]
        assert letters_in(letters.tables.query) == {
            ("agent/convert", "amounts"): 1,
            ("agent/price", "priced-orders"): 1,
        }

        # Records that are retried before the cause is mended fail again: each has a new letter.
        first = letters.newest(10)
        assert sum(letters.retry(first).records.values()) == 2
        app.run()
        second = letters.newest(10)
        assert len(second) == 2
        assert not {letter.id for letter in first} & {letter.id for letter in second}

        app.table("rates").put({"USD": 10})
        assert sum(letters.retry(second).records.values()) == 2
        assert app.dead_letters() == []
        app.run()
        assert values_of(app, "converted") == [2, 30]
        assert values_of(app, "prices") == [5, 50]
        sent = [record for record in app.topic("amounts").records() if record["key"] == "A2"]
        assert len(sent) == 3
        assert {(str(record["headers"]), record["timestamp"], record["partition"]) for record in sent} == {
            (str(sent[0]["headers"]), 2, sent[0]["partition"])
        }
        assert sent[0]["headers"] == {"trace": "x"}

        # A retry does not change the join's state: a rebuild emits nothing, and a change reaches the orders as before.
        assert app.rebuild("join/priced").rows_out == 0
        app.table("products").put({"P": {"price": 7}})
        app.run()
        assert sorted(record["value"] for record in app.topic("prices").records()[2:]) == [7, 70]
        assert letters.retry(second).records == {}


@pytest.mark.slow
def test_a_retry_only_for_the_failed_reader_reaches_no_other_reader(spark: SparkSession, tmp_path: Path) -> None:
    """An agent with a pattern, joins over the topic, tables made from a topic or channel, and an export skip it."""
    manifests = tmp_path / "retry.yaml"
    manifests.write_text(FOR_ONE.read_text().replace("FOLDER", str(tmp_path)))
    with Application.open(manifests, warehouse=tmp_path / "wh", spark=spark) as app:
        letters = RetryableDeadLetters(NativeSystemTables(delta_rs(app.delta.namespace)), app.plan)

        def others() -> dict[str, Any]:
            return {
                **{name: app.topic(name).records() for name in ("seen", "copies")},
                **{name: app.channel(name).records() for name in ("met", "near")},
                **{name: app.table(name).rows() for name in ("counted", "counted-met")},
                "files": sorted(
                    line
                    for file in (tmp_path / "seen").glob("batch=*/part-*")
                    for line in file.read_text().splitlines()
                ),
            }

        app.topic("raw").produce([{"key": "k", "value": {"n": 1}, "timestamp": 60_000}])
        app.run()
        before = others()
        assert {name: len(found) for name, found in before.items()} == dict.fromkeys(before, 1)
        assert [(letter["resource"], letter["source"]) for letter in app.dead_letters()] == [
            ("agent/failing", "seen"),
            ("agent/later", "met"),
        ]
        assert len(letters.seen_twice(letters.newest(10))) == 2
        app.table("known").put({"x": 7})
        retried = letters.retry(letters.newest(10), only_failed=True)
        assert sorted((origin.name, count) for origin, count in retried.records.items()) == [("met", 1), ("seen", 1)]
        app.run()
        assert others() == before
        assert values_of(app, "answers") == [[7, ["trace"]]]
        assert values_of(app, "found") == [[7, {"n": 1}]]
        failures = {str(one.resource): (one.dead_letters, one.failures) for one in app.status().resources}
        assert (failures["agent/failing"], failures["agent/later"]) == ((0, 1), (0, 1))

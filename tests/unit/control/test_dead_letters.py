"""Retries of dead letters without Spark: which can be retried, and that each is retried once."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import deltalake
import pytest

from kaspr_delta.control.dead_letters import Letter, Origin, letters_in
from kaspr_delta.control.retry import RetryableDeadLetters
from kaspr_delta.storage.layout import CHANNEL, DEAD_LETTERS, EVENTS, PROBLEM, RETRY_FOR, TOPIC, Layout
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from tests.folders import append_rows, folder_of
from tests.manifests import plan_of, plan_of_bundle

AT = datetime(2024, 5, 1, 12, 0, 0, 123_000, tzinfo=timezone.utc)
NOW = datetime.now(timezone.utc)
VALUE = b'{"quantity": "it\'s many", "order_id": "O1"}'
RAW_ORDERS = Origin("topic", "raw-orders", "topic__raw_orders")
HEADERS = [{"key": "trace", "value": b"\x00\xff"}]


@pytest.fixture
def letters(delta: DeltaRs) -> RetryableDeadLetters:
    return RetryableDeadLetters(NativeSystemTables(delta), plan_of_bundle("order-system"))


def on_topic(delta: DeltaRs, *records: dict[str, Any]) -> None:
    rows = [{"partition": 3, "headers": HEADERS, "timestamp": AT, "seq": n, **one} for n, one in enumerate(records)]
    append_rows(delta, "topic__raw_orders", TOPIC, *rows)


def failed(delta: DeltaRs, **other: Any) -> None:
    """Append a letter of the agent that reads raw-orders."""
    row = {
        "resource": "agent/ingest-orders",
        "source": "raw-orders",
        "key": '"O1"',
        "value": VALUE.decode(),
        "reason": "event failed",
        "detail": "ValueError: 'many'",
        "timestamp": AT,
        "batch": 4,
        "at": NOW,
    } | other
    NativeSystemTables(delta).append(DEAD_LETTERS, [tuple(row.values())])


def records(delta: DeltaRs) -> list[dict[str, Any]]:
    return delta.rows("topic__raw_orders")


def test_a_retried_record_is_sent_again_unchanged_and_its_letter_removed(
    delta: DeltaRs, letters: RetryableDeadLetters
) -> None:
    on_topic(delta, {"key": b'"O0"', "value": b"{}"}, {"key": b'"O1"', "value": VALUE})
    failed(delta)
    failed(delta, key='"O2"', value="{}", timestamp=AT + timedelta(seconds=1))
    (one,) = [letter for letter in letters.newest(10) if letter.key == '"O1"']
    assert letters.retry([one], "ann").records == {RAW_ORDERS: 1}
    again = [row for row in records(delta) if row["key"] == b'"O1"']
    assert len(again) == 2
    for row in again:
        assert (row["value"], row["headers"], row["partition"], row["timestamp"]) == (VALUE, HEADERS, 3, AT)
    assert [letter.key for letter in letters.newest(10)] == ['"O2"']
    (event,) = delta.rows(EVENTS)
    assert (event["kind"], event["name"], event["reason"]) == ("KasprAgent", "ingest-orders", "DeadLetterRetried")
    assert event["message"] == "1 dead letter put on topic `raw-orders` again, as ann asked"


@pytest.mark.parametrize("only_failed", [False, True])
def test_a_letter_that_was_retried_is_not_sent_a_second_time(
    delta: DeltaRs, letters: RetryableDeadLetters, *, only_failed: bool
) -> None:
    on_topic(delta, {"key": b'"O1"', "value": VALUE})
    failed(delta)
    (one,) = letters.newest(10)
    letters.retry([one], only_failed=only_failed)
    failed(delta)  # as if the process had died before the letter was removed
    (same,) = letters.newest(10)
    assert same.id == one.id
    assert letters.retry([same]).records == {}
    assert len(records(delta)) == 2
    assert letters.newest(10) == []


def test_a_record_that_fails_again_is_another_letter(delta: DeltaRs, letters: RetryableDeadLetters) -> None:
    on_topic(delta, {"key": b'"O1"', "value": VALUE})
    failed(delta)
    letters.retry(letters.newest(10))
    failed(delta, batch=5, at=NOW + timedelta(minutes=1))
    assert letters.retry(letters.newest(10)).records == {RAW_ORDERS: 1}
    assert len(records(delta)) == 3


@pytest.mark.parametrize(
    ("on", "letter", "copies", "sent"),
    [
        ({"key": None, "value": VALUE}, {"key": None}, 2, 2),
        ({"key": b"\xff", "value": b'{"b": 1, "a": 2}'}, {"key": "\ufffd", "value": '{"b":1,"a":2}'}, 1, 1),
        ({"key": b'"O1"', "value": b"{}"}, {}, 1, 0),
    ],
    ids=["equal ones together", "by the text that the letter shows", "it has left the topic, and the letter stays"],
)
def test_the_records_of_a_letter_are_found_on_its_topic(  # noqa: PLR0917  fixtures, and the case
    delta: DeltaRs, letters: RetryableDeadLetters, on: dict[str, Any], letter: dict[str, Any], copies: int, sent: int
) -> None:
    on_topic(delta, *[on] * copies)
    for _ in range(copies):
        failed(delta, **letter)
    (one,) = letters.newest(10)
    assert one.copies == copies
    retried = letters.retry([one])
    assert (retried.records, retried.lost) == (({RAW_ORDERS: sent}, ()) if sent else ({}, (one,)))
    assert letters.newest(10) == list(retried.lost)
    assert [row["key"] for row in records(delta)] == [on["key"]] * (copies + sent)


def emitted(delta: DeltaRs, *emissions: tuple[str, str, str | None, int]) -> None:
    """Append emissions to the join's log as its batches do: key, kind, right value, batch."""
    rows = [
        {"key": key, "kind": kind, "left": "{}", "right": right, "timestamp": AT, "seq": 0, "checkpoint": "1"}
        | {"batch": batch, "fk": "1", "emitted": "x"}
        for key, kind, right, batch in emissions
    ]
    append_rows(delta, "channel__orders_products_joined", Layout(CHANNEL.columns.replace(PROBLEM, "STRING")), *rows)


@pytest.mark.parametrize("pair", [{"left": {}, "right": 1}, {"left": "{}", "right": "1"}])
def test_a_channel_record_is_sent_again_unless_its_key_has_a_newer_emission(
    delta: DeltaRs, letters: RetryableDeadLetters, pair: dict[str, Any]
) -> None:
    """A join of tables emits the state of a key: the last emission that a reader sees must be the newest one.

    A letter's value is the pair as the channel shows it; in older letters each side is text.
    """
    emitted(delta, ("1", "value", "1", 1), ("2", "value", "1", 1), ("2", "tombstone", None, 2), ("3", "state", "1", 2))
    for key in ("1", "2", "3"):
        value = json.dumps(pair)
        agent = {"resource": "agent/process-enriched-orders", "source": "orders-products-joined"}
        failed(delta, **agent, key=key, value=value)
    retried = letters.retry(letters.newest(10))
    ((origin, sent),) = retried.records.items()
    assert (origin.kind, origin.name, sent) == ("channel", "orders-products-joined", 1)
    assert sorted(letter.key or "" for letter in retried.lost) == ["2", "3"]
    again = [row for row in delta.rows("channel__orders_products_joined") if row["checkpoint"] is None]
    assert [(row["key"], row["kind"], row["left"], row["right"], row["timestamp"]) for row in again] == [
        ("1", "value", "{}", "1", AT)
    ]
    assert {again[0][name] for name in ("batch", "memo", "start", "fk", "emitted")} == {None}
    failed(delta, **agent, key="2", value=None)
    (tombstone,) = [letter for letter in letters.newest(10) if letter.value is None]
    assert letters.retry([tombstone]).records == {origin: 1}


@pytest.mark.parametrize(
    ("resource", "source", "instead"),
    [
        ("agent/ingest-orders", "order-system-orders-changelog", "a row of a table"),
        ("join/orders-products-join", "orders,products", "rebuild join/orders-products-join"),
        ("task/nightly", "", "runs again when it is due"),
        ("topic/raw-orders", "s3://somewhere", "put it right where it came from"),
    ],
)
def test_a_letter_that_cannot_be_retried_stays_and_names_the_alternative(
    delta: DeltaRs, letters: RetryableDeadLetters, resource: str, source: str, instead: str
) -> None:
    failed(delta, resource=resource, source=source)
    (one,) = letters.newest(10)
    assert letters.origin_of(one) is None
    assert instead in letters.why_not(one)
    assert letters.retry([one]).records == {}
    assert letters.newest(10) == [one]


def test_a_letter_of_a_joins_stream_side_comes_from_its_topic(delta: DeltaRs) -> None:
    views = RetryableDeadLetters(NativeSystemTables(delta), plan_of_bundle("page-views"))
    join = views.plan.joins[0]
    source = join.left if isinstance(join.left, str) else join.left.name
    assert source == "PageViews"
    failed(delta, resource=str(join.ref), source=source)
    (one,) = views.newest(10)
    assert views.origin_of(one) == Origin("topic", source, "topic__pageviews")


READERS = """
KasprApp/readers: {topics: {seen: {files: {path: /nowhere, format: json}}}}
KasprAgent/maker: {input: {topic: {name: raw}}, output: {topics: [{name: seen}]}}
KasprAgent/one: {input: {topic: {name: seen}}}
KasprAgent/matching: {input: {topic: {pattern: "se.*"}}}
KasprTable/counted: {from: {topic: seen}, count: {}}
KasprTable/rows: {}
KasprJoin/met: {leftStream: {topic: seen}, rightTable: rows, on: key, outputChannel: met}
KasprJoin/pairs: {leftTable: rows, rightTable: rows, on: key, outputChannel: paired}
KasprJoin/again: {leftTable: pairs, rightTable: rows, on: key, outputChannel: again}
KasprAgent/two: {input: {channel: {name: paired}}}
"""


@pytest.fixture
def readers(delta: DeltaRs) -> RetryableDeadLetters:
    """Letters of an application in which a topic has five readers, one of them an export."""
    return RetryableDeadLetters(NativeSystemTables(delta), plan_of("readers", READERS))


def test_a_retry_for_one_reader_marks_the_record_in_its_headers(delta: DeltaRs, letters: RetryableDeadLetters) -> None:
    on_topic(delta, {"key": b'"O1"', "value": VALUE})
    failed(delta)
    assert letters.retry(letters.newest(10), only_failed=True).records == {RAW_ORDERS: 1}
    marked = [row["headers"] for row in records(delta) if row["headers"] != HEADERS]
    assert marked == [[*HEADERS, {"key": RETRY_FOR, "value": b"agent/ingest-orders"}]]
    (event,) = delta.rows(EVENTS)
    assert event["message"] == "1 dead letter put on topic `raw-orders` again for this reader alone"
    # The marked record, now alone on the topic, failed once more. A retry for all readers removes the mark.
    deltalake.DeltaTable(str(folder_of(delta.namespace, "topic__raw_orders"))).delete("seq = 0 AND partition = 3")
    on_topic(delta, {"key": b'"O1"', "value": VALUE, "headers": marked[0]})
    failed(delta, batch=5, at=NOW + timedelta(minutes=1))
    assert letters.retry(letters.newest(10)).records == {RAW_ORDERS: 1}
    assert sorted(len(row["headers"]) for row in records(delta)) == [1, 2]


def test_a_channel_record_for_one_reader_names_the_reader_in_its_kind(
    delta: DeltaRs, letters: RetryableDeadLetters
) -> None:
    emitted(delta, ("1", "value", "1", 1), ("2", "tombstone", None, 2))
    agent = {"resource": "agent/process-enriched-orders", "source": "orders-products-joined"}
    failed(delta, **agent, key="1", value='{"left":{},"right":1}')
    failed(delta, **agent, key="2", value=None)
    letters.retry(letters.newest(10), only_failed=True)
    again = [row for row in delta.rows("channel__orders_products_joined") if row["checkpoint"] is None]
    assert sorted((row["key"], row["kind"]) for row in again) == [
        ("1", "value for agent/process-enriched-orders"),
        ("2", "tombstone for agent/process-enriched-orders"),
    ]


def test_all_other_readers_of_a_topic_or_channel_are_named(delta: DeltaRs, readers: RetryableDeadLetters) -> None:
    """A reader of a join's result table, and not of its channel, does not get the record."""
    failed(delta, resource="agent/one", source="seen")
    failed(delta, resource="agent/one", source="seen", key="2")
    failed(delta, resource="agent/two", source="paired")
    letters = readers.newest(10)
    others = "agent/matching, join/met, table/counted, the export to json files in /nowhere"
    warning = f"topic seen is also read by {others}, which would get 2 records of agent/one a second time"
    assert readers.seen_twice(letters) == [warning]
    failed(delta, resource="agent/matching", source="second")
    assert readers.other_readers(readers.newest(10, "agent/matching")[0]) == []


def test_letters_are_counted_by_resource_and_source(delta: DeltaRs, letters: RetryableDeadLetters) -> None:
    failed(delta)
    failed(delta, resource="agent/other")
    mine, other = sorted(letters.newest(10), key=lambda letter: letter.resource)
    assert letters.other_readers(mine) == []
    assert letters.origin_of(other) is None
    assert letters_in(delta.rows) == {("agent/ingest-orders", "raw-orders"): 1, ("agent/other", "raw-orders"): 1}
    assert Letter(**delta.rows(DEAD_LETTERS)[0]).copies == 1

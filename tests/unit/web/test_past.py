"""Older versions of tables: rows are identified by key and window, also if keys are bytes; a log only grows."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import deltalake
import pytest

from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.page_reads import NativePageReads
from kaspr_delta.web.past import Past
from tests.folders import append_rows, delta_rs, folder_of

AT = datetime(2024, 5, 1, tzinfo=timezone.utc)
WINDOWED = Layout(
    "key STRING, value STRING, timestamp TIMESTAMP, window_start TIMESTAMP, window_end TIMESTAMP", change_feed=True
)
RAW = Layout("key BINARY, value BINARY, timestamp TIMESTAMP", change_feed=True)
TYPED = Layout("shop STRING, id INT, at STRUCT<zip INT>, _timestamp TIMESTAMP", change_feed=True)
LOG = Layout("key STRING, kind STRING, left STRING, right STRING, seq BIGINT", change_feed=True)


@pytest.fixture
def delta(tmp_path: Path) -> DeltaRs:
    return delta_rs(Warehouse(str(tmp_path)).namespace("shop"))


def appended(delta: DeltaRs, layout: Layout, *rows: dict[str, Any]) -> Past:
    append_rows(delta, "t", layout, *rows)
    return Past.of(NativePageReads(delta), "t")


def test_a_missing_or_empty_table_has_no_changes(delta: DeltaRs) -> None:
    assert Past.of(NativePageReads(delta), "t").versions == range(0)
    delta.ensure("t", RAW)
    past = Past.of(NativePageReads(delta), "t")
    assert past.versions == range(1)
    assert past.last_change() is None
    assert past.then(0).count == 0
    assert past.then(5).version == 0  # the nearest one that exists


def test_rows_show_their_windows_and_are_sorted_by_key_and_window(delta: DeltaRs) -> None:
    hours = [AT + timedelta(hours=n) for n in range(3)]
    rows = [
        {"key": key, "value": "a", "window_start": hours[n], "window_end": hours[n + 1]} for n in (1, 0) for key in "21"
    ]
    past = appended(delta, WINDOWED, *rows)
    shown = past.then(1).rows
    assert [tuple(row) for row in shown] == [("key", "value", "window_start", "window_end", "timestamp")] * 4
    assert [(row["key"], row["window_start"], row["window_end"]) for row in shown] == [
        (key, hours[n], hours[n + 1]) for key in "12" for n in (0, 1)
    ]
    last = past.last_change()
    assert last is not None
    assert [(change.row["window_start"], change.row["window_end"]) for change in last.changes] == [
        (hours[n], hours[n + 1]) for _ in "12" for n in (0, 1)
    ]
    assert past.then(0).since[0].row["window_end"] == hours[1]


def test_rows_of_one_key_are_distinguished_by_their_windows(delta: DeltaRs) -> None:
    rows = [{"key": "1", "value": "a", "window_start": AT + timedelta(hours=n)} for n in (0, 1)]
    appended(delta, WINDOWED, *rows)
    deltalake.DeltaTable(str(folder_of(delta.namespace, "t"))).update(
        predicate="window_start = arrow_cast('2024-05-01T01:00:00Z', 'Timestamp(Microsecond, Some(\"UTC\"))')",
        updates={"value": "'b'"},
    )
    past = Past.of(NativePageReads(delta), "t")
    last = past.last_change()
    assert last is not None
    ((change,), why_not) = last.changes, last.why_not
    assert not why_not
    assert change.word == "changed"
    assert change.before is not None
    assert change.after is not None
    assert (change.before["value"], change.after["value"]) == ("a", "b")
    then = past.then(1, "1")
    assert (then.count, then.changed) == (2, 1)
    assert [one.row["window_start"] for one in then.since] == [AT + timedelta(hours=1)]


def test_a_table_with_raw_keys_ignores_a_filter_by_key(delta: DeltaRs) -> None:
    appended(delta, RAW, {"key": b"\xff", "value": b"1"})
    past = appended(delta, RAW, {"key": b"\xfe", "value": b"2"})
    assert not past.has_text_keys
    then = past.then(1, "x")
    assert (then.count, then.changed) == (1, 1)
    assert [(one.before, one.row["key"]) for one in then.since] == [(None, b"\xfe")]


def test_rows_of_a_typed_table_are_distinguished_by_their_key_columns(delta: DeltaRs) -> None:
    row = {"shop": "a", "id": 1, "at": {"zip": 1}, "_timestamp": AT}
    appended(delta, TYPED, row, {**row, "id": 2}, {**row, "shop": "b"})
    delta.delete("t", "shop = 'a' AND id = 2")
    appended(delta, TYPED, {**row, "id": 3})
    delta.delete("t", "shop = 'b'")
    appended(delta, TYPED, {**row, "shop": "b", "at": {"zip": 2}})
    past = Past.of(NativePageReads(delta), "t", ("shop", "id"), is_typed=True)
    then = past.then(1, "a")
    assert (then.count, then.changed) == (3, 3)
    assert [(one.row["shop"], one.row["id"], one.word) for one in then.since] == [
        ("a", 2, "deleted"),
        ("a", 3, "new"),
        ("b", 1, "changed"),
    ]
    last = past.last_change()
    assert last is not None
    assert [dict(one.row) for one in last.changes] == [{**row, "shop": "b", "at": {"zip": 2}}]
    one = Past.of(NativePageReads(delta), "t", ("shop",), is_typed=True)
    assert one.has_text_keys
    assert one.then(1, "b").count == 1


def test_a_log_shows_the_records_of_its_last_commit_without_a_comparison(delta: DeltaRs) -> None:
    row = {"key": "1", "left": "{}", "right": None, "seq": 0}
    appended(delta, LOG, {**row, "kind": "value"})
    past = appended(delta, LOG, {**row, "kind": "value", "right": "1"}, {**row, "kind": "state", "seq": 1})
    last = past.last_change()
    assert last is not None
    assert [(one.word, one.row["right"]) for one in last.changes] == [("new", "1")]
    assert past.then(1).changed is None


def test_versions_that_have_left_the_log_cannot_be_chosen(delta: DeltaRs) -> None:
    for number in range(4):
        appended(delta, RAW, {"key": b"k", "value": str(number).encode()})
    location = folder_of(delta.namespace, "t")
    assert location is not None
    deltalake.DeltaTable(str(location), version=2).create_checkpoint()
    for version in (0, 1):
        (location / "_delta_log" / f"{version:020}.json").unlink()
    past = Past.of(NativePageReads(delta), "t")
    assert past.versions == range(2, 5)
    assert past.then(0).version == 2
    assert past.then(2).count == 2

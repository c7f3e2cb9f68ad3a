"""A local copy follows its table through every kind of change."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kaspr_delta.engine.agent.table_state import Cell
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.storage.layout import RESULT
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.log_files import Head
from kaspr_delta.web.local_copy import LocalCopy
from tests.folders import folder_of
from tests.unit.web.conftest import Shop, manifest, plan_of


@pytest.fixture
def table(shop: Shop) -> TablePlan:
    shop.apply(manifest("KasprTable", "t", "name: t"))
    plan = plan_of(shop, "t")
    shop.make(plan)
    return plan


@pytest.fixture
def copy(shop: Shop, table: TablePlan) -> Iterator[LocalCopy]:
    with contextlib.closing(LocalCopy(shop.delta, table)) as copy:
        yield copy


def opened(delta: DeltaRs, table: str) -> DeltaTable:
    location = folder_of(delta.namespace, table)
    return DeltaTable(str(location))


def merge(delta: DeltaRs, rows: dict[str, Any]) -> None:
    """Merge rows as a fold does: insert, update or, for None, delete."""
    now = datetime.now(timezone.utc)
    source = pa.table(
        {
            "key": pa.array([json.dumps(key) for key in rows], pa.string()),
            "value": pa.array([None if v is None else json.dumps(v) for v in rows.values()], pa.string()),
            "timestamp": pa.array([now] * len(rows), pa.timestamp("us", "UTC")),
        }
    )
    merging = opened(delta, "t").merge(source, "t.key = s.key", source_alias="s", target_alias="t")
    merging = merging.when_matched_delete("s.value IS NULL").when_matched_update_all()
    merging.when_not_matched_insert_all("s.value IS NOT NULL").execute()


def content(copy: LocalCopy) -> dict[Any, Any]:
    return {json.loads(str(key)): json.loads(value) for key, value in copy.scan(None).items()}


def test_inserts_changes_and_deletions_are_followed_without_a_new_copy(
    shop: Shop, table: TablePlan, copy: LocalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.put(table, {"a": 1, "b": 2, "c": 3})
    assert copy.refresh()
    monkeypatch.setattr(LocalCopy, "copied_anew", None)
    merge(shop.delta, {"a": 10, "b": None, "d": 4})
    merge(shop.delta, {"d": 5, "b": 6})
    merge(shop.delta, {"b": None})
    assert copy.refresh()
    assert not copy.refresh()
    assert content(copy) == {"a": 10, "c": 3, "d": 5}
    assert copy.fetch(['"a"', '"b"', '"d"', '"zz"']) == {'"a"': "10", '"d"': "5"}


def test_a_table_is_queried_until_it_is_copied(shop: Shop, table: TablePlan, copy: LocalCopy) -> None:
    assert copy.fetch(['"a"']) == {}
    shop.put(table, {"a": 1, "it's": 2})
    assert not copy.ready
    assert copy.fetch(['"a"', '"it\'s"', '"b"']) == {'"a"': "1", '"it\'s"': "2"}
    assert content(copy) == {"a": 1, "it's": 2}


def test_a_finished_copy_is_not_older_than_earlier_queries(
    shop: Shop, table: TablePlan, copy: LocalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query shows a commit that is newer than the unfinished copy."""
    copied = LocalCopy.copied_anew

    def copied_during_a_write(self: LocalCopy, head: Head) -> sqlite3.Connection:
        database = copied(self, head)
        shop.put(table, {"a": 2})
        assert content(self) == {"a": 2}
        monkeypatch.setattr(LocalCopy, "copied_anew", copied)
        return database

    monkeypatch.setattr(LocalCopy, "copied_anew", copied_during_a_write)
    shop.put(table, {"a": 1})
    assert copy.refresh()
    assert content(copy) == {"a": 2}


def test_a_table_that_was_dropped_and_made_anew_is_copied_anew(shop: Shop, table: TablePlan, copy: LocalCopy) -> None:
    import shutil

    shop.put(table, {"a": 1})
    copy.refresh()
    location = folder_of(shop.delta.namespace, "t")
    assert location is not None
    shutil.rmtree(location)
    assert not copy.refresh()
    assert copy.fetch(['"a"']) == {}
    shop.put(table, {"b": 2})
    assert copy.refresh()
    assert content(copy) == {"b": 2}


def test_the_newest_row_of_a_key_counts_also_after_a_deletion(
    shop: Shop, table: TablePlan, copy: LocalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.put(table, {"a": 1})
    copy.refresh()
    monkeypatch.setattr(LocalCopy, "copied_anew", None)
    shop.put(table, {"a": 2})
    copy.refresh()
    assert content(copy) == {"a": 2}
    opened(shop.delta, "t").delete("value = '2'")
    copy.refresh()
    assert content(copy) == {"a": 1}
    opened(shop.delta, "t").delete("value = '1'")
    copy.refresh()
    assert content(copy) == {}


@pytest.mark.usefixtures("table")
def test_rows_with_a_null_key_or_value_are_left_out(shop: Shop, copy: LocalCopy) -> None:
    now = datetime.now(timezone.utc)
    schema = pa.schema([("key", pa.string()), ("value", pa.string()), ("timestamp", pa.timestamp("us", "UTC"))])
    nothing: list[tuple[str | None, str | None]] = [(None, "1"), ('"a"', None), ('"b"', "null")]
    rows: list[dict[str, Any]] = [{"key": key, "value": value} for key, value in nothing]
    shop.delta.append("t", pa.Table.from_pylist([{**row, "timestamp": now} for row in rows], schema))
    copy.refresh()
    shop.delta.append("t", pa.Table.from_pylist([{**row, "timestamp": now} for row in rows], schema))
    copy.refresh()
    assert content(copy) == {}


def test_random_changes_are_followed(
    shop: Shop, table: TablePlan, copy: LocalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(7)  # noqa: S311  the same every time
    model: dict[Any, Any] = {f"k{number}": number for number in range(200)}
    for first in range(0, 200, 50):
        shop.put(table, {f"k{number}": number for number in range(first, first + 50)})
    copy.refresh()
    monkeypatch.setattr(LocalCopy, "copied_anew", None)
    for step in range(10):
        keys = [f"k{chance.randrange(250)}" for _ in range(8)]
        rows = {key: None if chance.random() < 0.3 else step for key in keys}
        merge(shop.delta, rows)
        model = {key: value for key, value in {**model, **rows}.items() if value is not None}
        copy.refresh()
        wanted = [json.dumps(f"k{number}") for number in range(250)]
        found = {json.loads(str(key)): json.loads(value) for key, value in copy.fetch(wanted).items()}
        assert found == content(copy) == model


@pytest.mark.parametrize("limit", ["many changes", "an unknown row"])
def test_a_feed_that_cannot_be_followed_leads_to_a_new_copy(
    shop: Shop, table: TablePlan, copy: LocalCopy, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    shop.put(table, {"a": 1, "b": 2})
    copy.refresh()
    if limit == "many changes":
        monkeypatch.setattr("kaspr_delta.web.local_copy._MANY_CHANGES", 1)
    else:
        assert copy._database is not None
        copy._database.execute("DELETE FROM rows")
    merge(shop.delta, {"a": None, "c": 3})
    assert copy.refresh()
    assert content(copy) == {"b": 2, "c": 3}


def test_a_commit_with_a_deletion_vector_and_no_change_file_is_not_followed(tmp_path: Path, shop: Shop) -> None:
    shop.delta.ensure("t", RESULT)
    log = tmp_path / "wh" / "shop" / "t" / "_delta_log"
    file = {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    vector = {"storageType": "u", "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA", "sizeInBytes": 1, "cardinality": 1}
    with_vector = {"add": {**file, "deletionVector": vector}}
    commits: list[list[Any]] = [
        [{"add": file}],
        [{"remove": {"path": "a", "dataChange": True}}, with_vector],
        [{"cdc": {**file, "path": "c", "dataChange": False}}, with_vector],
        [{"add": {**file, "deletionVector": vector, "dataChange": False}}],
    ]
    for version, actions in enumerate(commits):
        (log / f"{version + 1:020}.json").write_text("\n".join(map(json.dumps, actions)))
    assert [shop.delta.followable("t", at + 1, at + 1) for at in range(5)] == [True, False, True, True, False]


def test_rows_with_raw_keys_or_windows_are_fetched_and_scanned(shop: Shop) -> None:
    window = "name: w\nwindow: {tumbling: {size: 1m}}"
    raw = "name: r\nkeySerializer: raw\nvalueSerializer: raw"
    shop.apply(manifest("KasprTable", "w", window), manifest("KasprTable", "r", raw))
    moment = datetime(2020, 1, 1, tzinfo=timezone.utc)
    for name, row in {
        "w": {"key": '"a"', "value": "1", "timestamp": moment, "window_start": moment, "window_end": moment},
        "r": {"key": b"a", "value": b"1", "timestamp": moment},
    }.items():
        plan = plan_of(shop, name)
        shop.make(plan)
        schema = pa.table(opened(shop.delta, name).to_pyarrow_table().slice(0, 0)).schema
        shop.delta.append(name, pa.Table.from_pylist([row], schema))
        copy = LocalCopy(shop.delta, plan)
        place = Cell('"a"', int(moment.timestamp()) * 1_000) if name == "w" else "YQ=="
        expected = {place: "1" if name == "w" else "MQ=="}
        for _ in range(2):
            assert copy.fetch([place]) == expected
            assert copy.scan(place.start if isinstance(place, Cell) else None) == expected
            copy.refresh()

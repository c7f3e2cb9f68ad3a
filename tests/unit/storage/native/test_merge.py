"""Merges by delta-rs: kept commits, statistics and files. ``tests/spark/test_native_merge.py`` compares the rows."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from kaspr_delta.storage.layout import CHECKPOINT_INTERVAL, Layout
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.merge import merge as native_merge
from kaspr_delta.storage.tables import Merged, Upsert

UPSERT = Upsert(on=("key",), compare=("value",), also=(), keep="keep")


def merge(delta: DeltaRs, *rows: tuple[str, str]) -> Merged | None:
    keys, values = zip(*rows, strict=True)
    folder, opened = delta.folder("rows"), delta.open("rows")
    return native_merge(folder, opened, pa.table({"key": keys, "value": values, "keep": [True] * len(rows)}), UPSERT)


@pytest.mark.parametrize("retention", [1, None])
def test_commits_older_than_the_feed_retention_are_removed(delta: DeltaRs, retention: int | None) -> None:
    delta.ensure("rows", Layout("key STRING, value STRING", change_feed=True, feed_retention=retention))
    for number in range(CHECKPOINT_INTERVAL + 1):
        time.sleep(0.002)
        assert merge(delta, ("a", str(number))) is not None
    kept = len(list((delta.folder("rows") / "_delta_log").glob("?" * 20 + ".json")))
    assert (kept == CHECKPOINT_INTERVAL + 2) if retention is None else (kept < CHECKPOINT_INTERVAL)
    assert delta.rows("rows") == [{"key": "a", "value": str(CHECKPOINT_INTERVAL)}]


def test_files_have_statistics_only_of_look_up_columns(delta: DeltaRs) -> None:
    delta.ensure("rows", Layout("key STRING, value STRING", found_by=("key",)))
    merge(delta, ("a", "1"), ("b", "2"))
    opened = delta.opened("rows")
    assert opened is not None
    (file,) = pa.table(opened.get_add_actions(flatten=True)).to_pylist()
    assert (file["min.key"], file["max.key"]) == ("a", "b")
    assert "min.value" not in file

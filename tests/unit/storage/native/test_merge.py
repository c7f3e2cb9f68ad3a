"""Merges by delta-rs: kept commits, statistics and files. ``tests/spark/test_native_merge.py`` compares the rows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import CHECKPOINT_INTERVAL, Layout
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.log_files import versions_in
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
    kept = len(versions_in(delta.folder("rows")))
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


def test_minus_zero_differs_from_zero_and_nan_from_no_other_nan(delta: DeltaRs) -> None:
    columns = "key STRING, x DOUBLE, day DATE, price DECIMAL(38, 4)"
    nan, day, price = float("nan"), date(2024, 5, 1), Decimal("1.5000")
    stored = {"same": (0.1, day, price), "nan": (nan, date.min, None), "zero": (0.0, day, None)}
    stored["gone"] = (1.0, day, price)
    given = {**stored, "zero": (-0.0, day, None), "new": (nan, date.max, -price)}

    def rows(of: Mapping[str, tuple[Any, ...]]) -> pa.Table:
        named = (dict(zip(("key", "x", "day", "price"), (key, *row), strict=True)) for key, row in of.items())
        schema = arrow_schema(f"{columns}, keep BOOLEAN")
        return pa.Table.from_pylist([{**one, "keep": one["key"] != "gone"} for one in named], schema)

    delta.ensure("rows", Layout(columns, change_feed=True))
    delta.append("rows", rows(stored).drop_columns(["keep"]))
    folder, how = delta.folder("rows"), Upsert(compare=("x", "day", "price"), keep="keep")
    assert native_merge(folder, delta.open("rows"), rows(given), how) == Merged(3, 2, 1)
    found = {row["key"]: repr((row["x"], row["day"], row["price"])) for row in delta.rows("rows")}
    assert found == {key: repr(row) for key, row in given.items() if key != "gone"}
    assert native_merge(folder, delta.open("rows"), rows(given), how) == Merged(0)

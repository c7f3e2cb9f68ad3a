"""Rows by a few values, without Spark: what is found, in how many files it may be, and when only Spark can tell."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import SUBSCRIPTIONS
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native import look_up
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.look_up import LookedUp
from kaspr_delta.storage.tables import Texts
from tests.folders import delta_rs, folder_of


def looked_up(delta: DeltaRs, table: str, texts: Texts, version: int | None = None) -> LookedUp | None:
    return look_up.look_up(folder_of(delta.namespace, table), delta.open(table, version), texts)


SCHEMA = arrow_schema(SUBSCRIPTIONS.columns)


@pytest.fixture
def delta(tmp_path: Path) -> DeltaRs:
    """Subscriptions in three files: a to c, m to o, x to z."""
    delta = delta_rs(Warehouse(str(tmp_path)).namespace("shop"))
    delta.ensure("t", SUBSCRIPTIONS)
    for keys in ("abc", "mno", "xyz"):
        delta.append("t", pa.Table.from_pylist([{"key": key, "fk": f"P'{key}"} for key in keys], SCHEMA))
    return delta


@pytest.fixture(params=["searched for", "all read"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few values are searched for, of many all rows are read."""
    if request.param == "all read":
        monkeypatch.setattr(look_up, "_SEARCHED", 0)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("values", "found", "files"),
    [
        ({"key": ["b"]}, "b", 1),
        ({"key": ["b", "n", "gone"]}, "bn", 2),
        ({"key": ["between"]}, "", 1),
        ({"key": ["a"], "fk": ["P'z", "P'm"]}, "amz", 3),
        ({"key": [], "fk": ["P'o"]}, "o", 1),
        ({"key": ["d"]}, "", 0),
        ({"key": [], "fk": []}, "", 0),
    ],
)
def test_rows_that_have_one_of_some_values(
    delta: DeltaRs, values: dict[str, list[str]], found: str, files: int
) -> None:
    told = looked_up(delta, "t", values)
    assert told is not None
    assert sorted(told.rows["key"].to_pylist()) == list(found)
    assert told.rows.schema.equals(SCHEMA)
    assert told.files == files


@pytest.mark.usefixtures("way")
def test_at_a_version(delta: DeltaRs) -> None:
    told = looked_up(delta, "t", {"key": ["b", "n"]}, version=1)
    assert told is not None
    assert told.rows["key"].to_pylist() == ["b"]


@pytest.mark.usefixtures("way")
def test_too_many_rows_are_left_to_spark(delta: DeltaRs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_up, "_MOST_ROWS", 2)
    assert looked_up(delta, "t", {"key": ["a", "b"]}) is not None
    assert looked_up(delta, "t", {"key": ["a", "b", "z"]}) is None
    delta.append("t", pa.Table.from_pylist([{"key": "a"}, {"key": "a"}], SCHEMA))
    assert looked_up(delta, "t", {"key": ["a"]}) is None


@pytest.mark.usefixtures("way")
def test_too_many_bytes_are_left_to_spark(delta: DeltaRs, monkeypatch: pytest.MonkeyPatch) -> None:
    delta.append("t", pa.Table.from_pylist([{"key": "large", "emitted": "e" * 1_000}], SCHEMA))
    monkeypatch.setattr(look_up, "_MOST_BYTES", 1_000)
    assert looked_up(delta, "t", {"key": ["a", "z"]}) is not None
    assert looked_up(delta, "t", {"key": ["a", "large"]}) is None

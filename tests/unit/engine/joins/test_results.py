"""The results of joins of two tables: the keys that have a result, and the rows of the log."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pyarrow as pa
import pytest

from kaspr_delta.engine.joins.results import emitted_elsewhere, logged, with_result
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.streams.selector import ARROW_PROBLEM
from kaspr_delta.plan.definition.joins import JoinType
from kaspr_delta.storage.arrow_types import arrow_schema
from tests.slices import listed, local_rows

PAIRS = pa.schema(
    [
        *arrow_schema(
            "key STRING, left STRING, left_hash STRING, right STRING, right_hash STRING, emitted STRING, fk STRING,"
            " old_fk STRING, result_timestamp TIMESTAMP"
        ),
        ("problem", ARROW_PROBLEM),
    ]
)
FAILED = {"reason": "r", "detail": "d", "value": None}


def pairs(*found: dict[str, Any]) -> LocalRows:
    return local_rows(PAIRS, *found)


def pair(left: str | None, right: str | None, **columns: Any) -> dict[str, Any]:
    """A key with its left and right row; the hash of a row is its text."""
    return {"key": "k", "left": left, "left_hash": left, "right": right, "right_hash": right, **columns}


@pytest.mark.parametrize(
    ("join_type", "expected"),
    [
        ("inner", ["l:r", None, None, None]),
        ("left", ["l:r", "l:", None, None]),
        ("outer", ["l:r", "l:", ":r", None]),
    ],
)
def test_the_join_type_decides_which_row_may_be_missing(join_type: JoinType, expected: list[str | None]) -> None:
    every = pairs(pair("l", "r"), pair("l", None), pair(None, "r"), pair(None, None))
    assert [row["result"] for row in listed(with_result(every, join_type, ""))] == expected


def test_another_select_makes_another_result() -> None:
    (row,) = listed(with_result(pairs(pair("l", "r")), "inner", "fingerprint"))
    assert row["result"] == "l:r:fingerprint"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pair("l", "r", emitted=None), [("value", "l", "r", "l:r", False)]),
        (pair("l", "r", emitted="l:old"), [("value", "l", "r", "l:r", False)]),
        (pair("l", None, emitted="l:old"), [("tombstone", None, None, None, False)]),
        (pair("l", "r", emitted="l:r"), []),
        (pair("l", None, emitted=None), []),
        (pair("l", "r", emitted="l:r", problem=FAILED), [("state", None, None, "l:r", True)]),
    ],
)
def test_the_log_gets_new_results_tombstones_and_problems(
    given: dict[str, Any], expected: list[tuple[Any, ...]]
) -> None:
    found = listed(logged(with_result(pairs(given), "inner", "")))
    assert [tuple(row[name] for name in ("kind", "left", "right", "emitted", "failed")) for row in found] == expected


def test_a_changed_state_goes_to_the_log_with_its_columns() -> None:
    given = pairs(pair("l", "r", emitted="l:r", fk="new", old_fk="old"))
    (row,) = listed(logged(with_result(given, "inner", ""), ["fk"], nw.col("fk") != nw.col("old_fk")))
    assert (row["kind"], row["fk"]) == ("state", "new")


def test_a_new_channel_gets_all_results_and_tombstones_for_lost_results() -> None:
    again = pairs(pair("l", "r", emitted="l:r"), pair("l", None, emitted="l:r"), pair("l", None))
    found = listed(logged(with_result(again.with_columns(emitted=emitted_elsewhere()), "inner", "")))
    assert [row["kind"] for row in found] == ["value", "tombstone"]

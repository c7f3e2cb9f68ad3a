"""Each hop by itself, on the driver. ``tests/spark/test_both_kinds_of_rows.py`` compares the driver with Spark."""

from __future__ import annotations

from datetime import datetime, timezone
from math import inf
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.joins.foreign_key.extract import ExtractForeignKeys
from kaspr_delta.engine.joins.foreign_key.hops import emit, respond, send, triggered_by_right, with_right_rows
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.streams.selector import ARROW_PROBLEM, Selector
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition.joins import JoinType
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import PROBLEM
from tests.slices import listed
from tests.slices import local_rows as rows

JSON = TableText(Serializers("json", "json"))
# A left key with its subscription before this batch (old_*), and its row at the pinned version.
CONTEXT = arrow_schema(
    "key STRING, changed_at TIMESTAMP, triggered_by_right BOOLEAN, old_fk STRING, old_hash STRING, emitted STRING,"
    " left STRING, left_hash STRING, left_timestamp TIMESTAMP, duplicate_count BIGINT, left_text STRING"
)
PRODUCT = Snippet("def product(value): return value['product']", "product")


def context(**columns: Any) -> LocalRows:
    """The input of ``send`` for one left key; columns that are not given are NULL."""
    return rows(CONTEXT, {"key": '"k"', "triggered_by_right": False, **columns})


def sent(found: Rows, extractor: Snippet = PRODUCT) -> dict[str, Any]:
    (row,) = listed(send(found, ExtractForeignKeys(Selector(extractor, JSON, "extractor", "foreign key", inf), JSON)))
    return row


@pytest.mark.parametrize(
    ("hash_of_row", "sent_as"), [("old", ('"a"', None, False)), ("new", (None, "extractor failed", True))]
)
def test_a_triggered_row_is_stale_and_computed_anew_only_if_its_hash_differs(
    hash_of_row: str, sent_as: tuple[Any, ...]
) -> None:
    raising = Snippet("def raising(value): raise AssertionError", "raising")
    row = sent(
        context(triggered_by_right=True, old_fk='"a"', old_hash="old", left="{}", left_hash=hash_of_row), raising
    )
    assert (row["fk"], row["problem"] and row["problem"]["reason"], row["stale"]) == sent_as


def test_a_foreign_key_that_cannot_be_written_is_a_problem() -> None:
    row = sent(context(left='{"product":1}', left_hash="h"), Snippet("key = lambda value: object()", "key"))
    assert row["fk"] is None
    assert row["problem"]["reason"] == "foreign key cannot be used"


def test_only_exact_keys_are_triggered_and_touched_rows_are_left_out() -> None:
    schema = arrow_schema("key STRING, old_fk STRING")
    pairs = [("k1", "P1"), ("k10", "P10"), ("k2", "P1"), ("k3", None)]
    subscriptions = rows(schema, *({"key": key, "old_fk": fk} for key, fk in pairs))
    changes = arrow_schema("key STRING, changed_at TIMESTAMP")
    found = triggered_by_right(subscriptions, rows(changes, {"key": "P1"}), rows(changes, {"key": "k2"}))
    assert listed(found) == [{"key": "k1", "old_fk": "P1", "changed_at": None}]


SENT = arrow_schema(f"key STRING, fk STRING, problem {PROBLEM}")


def test_an_unreadable_right_row_counts_as_missing_and_is_a_problem() -> None:
    side = arrow_schema(
        "key STRING, value STRING, hash STRING, timestamp TIMESTAMP, duplicate_count BIGINT, readable BOOLEAN,"
        " text STRING"
    )
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    right = {"value": "{", "hash": "h", "timestamp": at, "duplicate_count": 1, "text": "{"}
    found = rows(side, {"key": "a", **right, "readable": False}, {"key": "b", **right, "readable": True})
    subscribers = rows(SENT, {"key": "1", "fk": "a"}, {"key": "2", "fk": "b"})
    missing, there = listed(with_right_rows(subscribers, found))
    assert (missing["right"], missing["right_hash"], missing["right_timestamp"]) == (None, None, None)
    assert missing["problem"]["reason"] == "right value cannot be read"
    assert (there["right"], there["right_hash"], there["right_timestamp"], there["problem"]) == ("{", "h", at, None)


ANSWERED = pa.schema(
    [
        *CONTEXT,
        *arrow_schema("stale BOOLEAN, fk STRING, right STRING, right_hash STRING"),
        ("right_timestamp", pa.timestamp("us", "UTC")),
        ("problem", ARROW_PROBLEM),
    ]
)


def answered(**columns: Any) -> LocalRows:
    given = {"key": "k", "triggered_by_right": False, "stale": False, "right_hash": columns.get("right"), **columns}
    return rows(ANSWERED, given)


LONELY = {"left": "l", "left_hash": "h", "fk": "a"}
SUBSCRIBED = {"old_fk": "a", "old_hash": "h"}


@pytest.mark.parametrize(
    ("join_type", "row", "expected"),
    [
        ("inner", LONELY, [("state", None, None)]),
        ("left", LONELY, [("value", "l", None)]),
        # An unchanged result is not emitted again, and a tombstone needs an earlier emission.
        ("inner", {**LONELY, **SUBSCRIBED, "right": "r", "emitted": "h:r"}, []),
        ("left", {**SUBSCRIBED, "emitted": "h:x"}, [("tombstone", None, None)]),
        ("inner", SUBSCRIBED, [("state", None, None)]),
        ("left", {}, []),
    ],
)
def test_new_results_lost_ones_and_changed_subscriptions_are_emitted(
    join_type: JoinType, row: dict[str, Any], expected: list[tuple[Any, ...]]
) -> None:
    found = listed(emit(respond(answered(**row), join_type, "")))
    assert [(row["kind"], row["left"], row["right"]) for row in found] == expected


@pytest.mark.parametrize(
    ("right_only", "stale", "right_time", "expected"),
    [(False, False, 60, 100), (False, False, 130, 130), (True, False, 60, 60), (True, True, 60, 100)],
)
def test_a_result_has_the_greater_time_unless_only_right_triggered_it(
    right_only: bool, stale: bool, right_time: int, expected: int
) -> None:
    left, right = (datetime.fromtimestamp(seconds, tz=timezone.utc) for seconds in (100, right_time))
    times = {"left_timestamp": left, "right_timestamp": right}
    found = answered(triggered_by_right=right_only, stale=stale, left="l", left_hash="h", fk="a", right="r", **times)
    (row,) = listed(respond(found, "inner", ""))
    assert row["result_timestamp"].timestamp() == expected


def test_a_changed_row_without_a_result_subscribes_with_its_new_hash() -> None:
    changed = answered(left="l", left_hash="new", fk="a", old_fk="a", old_hash="old")
    (row,) = listed(emit(respond(changed, "inner", "")))
    assert (row["kind"], row["fk"], row["left_hash"]) == ("state", "a", "new")

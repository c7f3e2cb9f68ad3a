"""Each hop by itself: rows in, rows out."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F

from kaspr_delta.engine.joins.foreign_key.emit import emit
from kaspr_delta.engine.joins.foreign_key.instruction import Instruction, instruction
from kaspr_delta.engine.joins.foreign_key.response import respond
from kaspr_delta.engine.joins.foreign_key.right_change import woken
from kaspr_delta.engine.joins.foreign_key.send import Extract, send
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition.joins import JoinType
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.table_text import TableText

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JSON = TableText(Serializers("json", "json"))
# What is known of a left key: its subscription before this batch (old_*), and its row at the pinned version.
KNOWN = (
    "key STRING, changed_at TIMESTAMP, woken BOOLEAN, old_fk STRING, old_hash STRING, emitted STRING, left STRING,"
    " left_hash STRING, left_timestamp TIMESTAMP, copies BIGINT"
)
PRODUCT = Snippet("def product(value): return value['product']", "product")


def known(spark: SparkSession, **columns: Any) -> Rows:
    """One left key as `send` gets it; what is not named is NULL."""
    names = [part.split()[0] for part in KNOWN.split(", ")]
    row = tuple({"key": '"k"', "woken": False, **columns}.get(name) for name in names)
    return Rows.of(spark.createDataFrame([row], KNOWN))


def sent(rows: Rows, extractor: Snippet = PRODUCT) -> dict[str, Any]:
    row = send(rows, "inner", Extract(Selector(extractor, JSON, "extractor", "foreign key"), JSON)).df.first()
    assert row is not None
    return row.asDict(recursive=True)


ONLY = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE
NULL = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
DELETE = Instruction.DELETE_KEY_AND_PROPAGATE


@pytest.mark.parametrize(
    ("join_type", "old", "new", "expected"),
    [
        ("inner", None, "a", ONLY),
        ("left", None, "a", NULL),
        ("inner", "a", "a", ONLY),
        ("inner", "a", "b", NULL),
        ("left", "a", "b", NULL),
        ("inner", "a", None, DELETE),
        ("left", "a", None, DELETE),
        ("inner", None, None, None),
    ],
)
def test_instructions_are_those_of_kip_213(
    spark: SparkSession, join_type: JoinType, old: str | None, new: str | None, expected: Instruction | None
) -> None:
    rows = spark.createDataFrame([(old, new)], "old STRING, new STRING")
    (row,) = rows.select(instruction(join_type, F.col("old"), F.col("new")).alias("told")).collect()
    assert row["told"] == (None if expected is None else expected.value)


def test_a_woken_row_that_is_unchanged_keeps_its_foreign_key_unasked(spark: SparkSession) -> None:
    raising = Snippet("def raising(value): raise AssertionError", "raising")
    row = sent(known(spark, woken=True, old_fk='"a"', old_hash="h", left="{}", left_hash="h"), raising)
    assert (row["fk"], row["problem"]) == ('"a"', None)


def test_a_woken_row_with_another_hash_is_sent_again(spark: SparkSession) -> None:
    left = '{"product":"b"}'
    row = sent(known(spark, woken=True, old_fk='"a"', old_hash="old", left=left, left_hash="new"))
    assert (row["fk"], row["instruction"]) == ('"b"', NULL.value)


def test_a_key_that_cannot_be_written_is_a_problem_and_no_key(spark: SparkSession) -> None:
    row = sent(known(spark, left='{"product":1}', left_hash="h"), Snippet("key = lambda value: object()", "key"))
    assert row["fk"] is None
    assert row["problem"]["reason"] == "foreign key cannot be used"


def test_only_exact_keys_are_woken_and_touched_rows_are_left_out(spark: SparkSession) -> None:
    subscriptions = spark.createDataFrame(
        [("k1", "P1"), ("k10", "P10"), ("k2", "P1"), ("k3", None)], "key STRING, fk STRING"
    )
    right = spark.createDataFrame([("P1", None)], "key STRING, changed_at TIMESTAMP")
    left = spark.createDataFrame([("k2",)], "key STRING")
    expected = spark.createDataFrame([("k1", None)], "key STRING, changed_at TIMESTAMP")
    assert_df_equality(woken(subscriptions, right, left), expected, ignore_nullable=True)


ANSWERED = (
    "key STRING, changed_at TIMESTAMP, woken BOOLEAN, stale BOOLEAN, old_fk STRING, old_hash STRING, emitted STRING,"
    " left STRING, left_hash STRING, left_timestamp TIMESTAMP, fk STRING,"
    " problem STRUCT<reason: STRING, detail: STRING, value: STRING>,"
    " instruction STRING, right STRING, right_hash STRING, right_timestamp TIMESTAMP"
)


def answered(spark: SparkSession, **columns: Any) -> DataFrame:
    names = [
        part.split()[0]
        for part in ANSWERED.replace("STRUCT<reason: STRING, detail: STRING, value: STRING>", "P").split(", ")
    ]
    given = {"key": "k", "woken": False, "stale": False, "right_hash": columns.get("right"), **columns}
    row = tuple(given.get(name) for name in names)
    return spark.createDataFrame([row], ANSWERED)


def emission(rows: DataFrame, join_type: JoinType) -> list[tuple[Any, ...]]:
    return [(r["kind"], r["left"], r["right"]) for r in emit(respond(rows, join_type)).collect()]


def test_inner_needs_both_rows_and_left_only_the_left_one(spark: SparkSession) -> None:
    lonely = answered(spark, left="l", left_hash="h", fk="a")
    assert emission(lonely, "inner") == [("state", None, None)]
    assert emission(lonely, "left") == [("value", "l", None)]


@pytest.mark.parametrize(
    ("woken_only", "stale", "expected"), [(False, False, 100), (True, False, 60), (True, True, 100)]
)
def test_a_result_has_the_greater_time_or_that_of_the_right_row_which_alone_brought_it_about(
    spark: SparkSession, woken_only: bool, stale: bool, expected: int
) -> None:
    times = {"left_timestamp": datetime.fromtimestamp(100), "right_timestamp": datetime.fromtimestamp(60)}  # noqa: DTZ006
    rows = answered(spark, woken=woken_only, stale=stale, left="l", left_hash="h", fk="a", right="r", **times)
    row = respond(rows, "inner").select(F.unix_seconds("result_timestamp").alias("seconds")).first()
    assert row is not None
    assert row["seconds"] == expected


def test_what_was_emitted_already_is_not_emitted_again(spark: SparkSession) -> None:
    first = answered(spark, left="l", left_hash="h", fk="a", right="r")
    (row,) = emit(respond(first, "inner")).collect()
    again = answered(
        spark, left="l", left_hash="h", fk="a", right="r", old_fk="a", old_hash="h", emitted=row["emitted"]
    )
    assert emission(again, "inner") == []


def test_a_tombstone_needs_something_emitted_before(spark: SparkSession) -> None:
    gone = answered(spark, old_fk="a", old_hash="h", emitted="h:x")
    assert emission(gone, "left") == [("tombstone", None, None)]
    never = answered(spark, old_fk="a", old_hash="h")
    assert emission(never, "inner") == [("state", None, None)]
    unknown = answered(spark)
    assert emission(unknown, "left") == []

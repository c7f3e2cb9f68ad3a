"""Rows with columns in Spark: their text and hash, and foreign keys made of columns, which are those of Python."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from math import inf
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.joins.foreign_key.extract import ExtractForeignKeys, ForeignKeyColumns
from kaspr_delta.engine.joins.foreign_key.hops import send
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.rows.typed_columns import row_hash, row_of, row_text
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.functions.column_paths import Picked, picked
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition.resources import Serializers, TablePlan
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.serde.typed_text import TypedText
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.spec.diagnostics import Location
from kaspr_delta.storage.arrow_types import collected

pytestmark = pytest.mark.further

JSON = Serializers("json", "json")
KEYS = columns_of(
    "text STRING, small TINYINT, big BIGINT, few DECIMAL(5, 2), many DECIMAL(38, 18), truth BOOLEAN, raw BINARY,"
    " day DATE, moment TIMESTAMP, local TIMESTAMP_NTZ, word STRING"
)
OTHERS = columns_of(
    "double DOUBLE, list ARRAY<STRUCT<a: INT, at: TIMESTAMP>>, map MAP<STRING, DECIMAL(5, 1)>,"
    " inner STRUCT<x: STRING, y: ARRAY<BINARY>>"
)
PLAN = TypedPlan(("text",), (*KEYS, *OTHERS))
NO_TABLES: Any = None
"""A placeholder: the test uses no tables."""
TEXT = TypedText(JSON, PLAN)
BEGINNING = datetime(1970, 1, 1, tzinfo=timezone.utc)


def some_row(chance: random.Random) -> dict[str, Any]:
    """A row with all columns. Each is now and then null."""

    def text() -> str:
        return "".join(
            chance.choice(['"', "\\", "/", "\n", "\x0b", "\x1f", "\x7f", "é", "\u2028", "𝄞", "a"]) for _ in range(9)
        )

    def moment() -> datetime:
        return BEGINNING + timedelta(microseconds=chance.randrange(-(10**15), 4 * 10**15))

    digits = chance.choice([0, 5, 50, 500, -1, 99999, -99999, 10, -100])
    row = {
        "text": text(),
        "small": chance.randrange(-128, 128),
        "big": chance.choice([0, 10, 2**63 - 1, -(2**63)]),
        "few": Decimal(digits).scaleb(-2),
        "many": Decimal(chance.choice([0, 1, 10**18, -(10**17), 10**37 + 1])).scaleb(-18),
        "truth": chance.random() < 0.5,
        "raw": chance.randbytes(chance.randrange(5)),
        "day": moment().date(),
        "moment": moment(),
        "local": moment().replace(tzinfo=None),
        "word": chance.choice(["", "None", "ß"]),
        "double": chance.choice([0.0, 1e300, -1.5, float("inf")]),
        "list": [{"a": 1, "at": moment()}, {"a": None, "at": None}, None],
        "map": {text(): Decimal("1.5"), "b": None},
        "inner": {"x": chance.choice(["a", "b", "c", "d", None]), "y": [b"\x00", None]},
    }
    return {name: None if chance.random() < 0.1 else value for name, value in row.items()}


@pytest.fixture(scope="module")
def columns(spark: SparkSession) -> DataFrame:
    chance = random.Random(7)  # noqa: S311  always the same rows
    texts = [(n, TEXT.value(some_row(chance))) for n in range(300)]
    df = spark.createDataFrame(texts, "n INT, text STRING")
    return df.select("n", row_of(F.col("text"), PLAN.row).alias("row")).orderBy("n")


def test_maps_with_number_or_boolean_keys_are_read(spark: SparkSession) -> None:
    of = columns_of("ids MAP<BIGINT, DATE>, flags MAP<BOOLEAN, INT>")
    row = spark.sql("SELECT map(-7L, DATE'2024-05-01') AS ids, map(true, 1, false, 2) AS flags")
    text = row.select(row_text(F.struct("*")).alias("text")).toArrow()["text"].to_pylist()[0]
    expected = {"ids": {-7: date(2024, 5, 1)}, "flags": {True: 1, False: 2}}
    assert TypedText(JSON, TypedPlan((), of)).value_object(text) == expected


def test_an_added_column_of_nulls_changes_no_row_hash(spark: SparkSession) -> None:
    row = spark.range(1).select(F.struct(F.lit(1).alias("a"), F.lit("x").alias("b")).alias("row"))
    wider = row.select(F.struct("row.*", F.lit(None).cast("date").alias("c")).alias("row"))
    assert row.select(row_hash(F.col("row"))).first() == wider.select(row_hash(F.col("row"))).first()


def function(returned: str) -> tuple[Picked | None, Snippet]:
    snippet = Snippet(f"def of(value):\n    return {returned}", "of")
    return picked(snippet), snippet


@pytest.mark.parametrize(
    ("names", "types"),
    [
        (("text", "moment"), "k STRING, m TIMESTAMP"),
        pytest.param(("few",), "k DECIMAL(5, 2)", marks=pytest.mark.slow),
        pytest.param(("inner.x",), "k STRING", marks=pytest.mark.slow),
    ],
)
def test_a_foreign_key_of_columns_is_the_same_in_spark_and_in_python(
    columns: DataFrame, names: tuple[str, ...], types: str
) -> None:
    """Spark computes the keys of many rows from the columns, and a function those of few rows."""
    picked_columns = Picked.of_names(names, several=len(names) > 1)
    assert len({row["fk"] for row in same_in_both(columns, picked_columns, picked_columns.function, types)}) > 3


@pytest.mark.parametrize(
    ("returned", "types"),
    [
        pytest.param("value['day']", "k DATE", marks=pytest.mark.slow),
        ("f\"{value['word']}-{value['big']}/{value.get('day')!s}\"", "k STRING"),
        pytest.param("value['text'] + '-' + value['word']", "k STRING", marks=pytest.mark.slow),
        ("'<' + (value['word'] + (value['text'] + str(value['small'])))", "k STRING"),
        ("[value['word'] + '!', value['small'], f'{value[\"text\"]}']", "k STRING, n BIGINT, m STRING"),
    ],
)
def test_a_function_that_makes_text_of_columns_gives_the_same_key_in_spark(
    columns: DataFrame, returned: str, types: str
) -> None:
    """Also if a column is null: an f-string then has the text None, and a function that adds texts fails."""
    key, snippet = function(returned)
    assert key is not None
    found = same_in_both(columns, key, snippet, types)
    assert len({row["fk"] for row in found}) > 3
    failed = {row["detail"].splitlines()[-1] for row in found if row["reason"] == "function failed"}
    assert bool(failed) == ("+" in returned)


def same_in_both(columns: DataFrame, key: Picked, extractor: Snippet, types: str) -> list[Any]:
    """The rows of `send`. Asserts that they are the same in Spark and in Python."""
    kinds = columns_of(types)
    right = TypedText(JSON, TypedPlan(tuple(one.name for one in kinds), kinds))
    left = TablePlan("left", "left", "", JSON, 1, description="", location=Location("", 1, 1), typed=PLAN)
    known = columns.select(
        F.col("n").cast("string").alias("key"),
        (F.col("n") % 3 == 0).alias("triggered_by_right"),
        F.lit('"old"').alias("old_fk"),
        F.when(F.col("n") % 2 == 0, row_hash(F.col("row"))).otherwise("stale").alias("old_hash"),
        F.when(F.col("n") % 7 != 0, F.col("row")).alias("left"),
        F.when(F.col("n") % 7 != 0, row_hash(F.col("row"))).alias("left_hash"),
        F.when(F.col("n") % 7 != 0, F.col("n") % 5).alias("duplicate_count"),
        F.when(F.col("n") % 7 != 0, row_text(F.col("row"))).alias("left_text"),
    ).where(
        "NOT (triggered_by_right AND old_hash <=> left_hash)"
    )  # without unchanged rows, which keep their stored foreign key
    selector = Selector(extractor, right, "function", "foreign key", inf)
    extraction = ExtractForeignKeys(selector, TEXT, PLAN.row)
    computed = ForeignKeyColumns(key, [one.type for one in kinds], KeyedTable(NO_TABLES, left), selector)
    shown = ("key", "fk", "stale", "problem.reason", "problem.detail", "left_hash")
    in_python, in_spark = (
        send(rows, extraction, computed).df.select(*shown).orderBy("key").collect()
        for rows in (LocalRows(known.sparkSession, collected(known)), SparkRows(known))
    )
    assert in_spark == in_python
    return in_spark

"""Times of any year are read as Spark reads them, from files with INT96 or with microseconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import open_tables
from kaspr_delta.storage.tables import Tables, Upsert
from tests.folders import delta_rs

pytestmark = pytest.mark.further

_KIND = "spark.sql.parquet.outputTimestampType"
COLUMNS = "key STRING, t TIMESTAMP, inner STRUCT<t: TIMESTAMP>"
SHOWN = ("key", "cast(t AS STRING) AS t", "cast(inner.t AS STRING) AS inner")
ROWS = [
    ("last", "9999-12-31 23:59:59.123456", "9999-12-31 00:00:00"),
    ("long ago", "1500-02-03 04:05:06.7", "1600-01-01 00:00:00"),
    ("now", "2026-01-02 03:04:05.000006", "2026-01-01 00:00:00"),
]


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Tables:
    delta = open_tables(Warehouse(str(tmp_path)).namespace("far"))
    delta.create_schema(spark)
    return delta


@contextmanager
def written_as(spark: SparkSession, kind: str) -> Iterator[None]:
    before = spark.conf.get(_KIND, "")
    spark.conf.set(_KIND, kind)
    try:
        yield
    finally:
        spark.conf.set(_KIND, str(before))


def fill(spark: SparkSession, delta: Tables, rows: list[tuple[str, str, str]]) -> None:
    """Append rows in one commit, to a table with a change feed."""
    delta.create(spark, "times", Layout(COLUMNS, change_feed=True))
    made = spark.createDataFrame(rows, "key STRING, t STRING, inner STRING").selectExpr(
        "key", "cast(t AS TIMESTAMP) AS t", "named_struct('t', cast(inner AS TIMESTAMP)) AS inner"
    )
    delta.append(spark, made, "times")


def by_spark(spark: SparkSession, delta: Tables, table: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, delta.read(spark, table).selectExpr(*SHOWN).collect()))


def by_delta_rs(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    def text(moment: Any) -> str:
        whole, _, part = moment.isoformat(sep=" ").removesuffix("+00:00").partition(".")
        return f"{whole}.{part.rstrip('0')}".rstrip(".")

    return sorted((row["key"], text(row["t"]), text(row["inner"]["t"])) for row in rows)


@pytest.mark.parametrize("kind", ["INT96", pytest.param("TIMESTAMP_MICROS", marks=pytest.mark.slow)])
def test_times_of_any_year_are_read_and_copied_without_spark(spark: SparkSession, delta: Tables, kind: str) -> None:
    with written_as(spark, kind):
        fill(spark, delta, ROWS)
    assert by_spark(spark, delta, "times") == sorted(ROWS)
    assert by_delta_rs(delta_rs(delta.namespace).rows("times")) == sorted(ROWS)
    delta.create(spark, "copied", Layout(COLUMNS))
    upsert = Upsert(compare=("t", "inner"), keep="keep", sole_writer=True)
    rows = delta.read(spark, "times").withColumn("keep", F.expr("true"))
    delta.merge(spark, rows, "copied", upsert, delta.scan(spark, "times"))
    history = spark.sql(f"DESCRIBE HISTORY {delta.namespace.identifier('copied')}").where("version = 1").collect()
    assert ["delta-rs" in commit["engineInfo"] for commit in history] == [True]
    assert by_spark(spark, delta, "copied") == sorted(ROWS)


def test_int96_times_are_looked_up_without_spark(spark: SparkSession, delta: Tables) -> None:
    with written_as(spark, "INT96"):
        fill(spark, delta, ROWS)
    delta.create(spark, "plain", Layout("key STRING, t TIMESTAMP"))
    with written_as(spark, "INT96"):
        delta.append(spark, delta.read(spark, "times").select("key", "t"), "plain")
    found = delta.look_up(spark, "plain", {"key": ["last", "now"]})
    assert isinstance(found, pa.Table)
    expected = delta.read(spark, "plain").where("key IN ('last', 'now')")
    shown = spark.createDataFrame(found).selectExpr(*SHOWN[:2]).collect()
    assert sorted(map(tuple, shown)) == sorted(map(tuple, expected.selectExpr(*SHOWN[:2]).collect()))


@pytest.mark.parametrize(("kind", "is_readable"), [("INT96", False), ("TIMESTAMP_MICROS", True)])
def test_delta_rs_follows_a_feed_only_if_its_times_are_read_correctly(
    spark: SparkSession, delta: Tables, kind: str, *, is_readable: bool
) -> None:
    with written_as(spark, "INT96"):
        fill(spark, delta, ROWS[2:])
    with written_as(spark, kind):
        fill(spark, delta, ROWS)
    reader = delta_rs(delta.namespace)
    newest = reader.versions("times")[-1]
    assert reader.followable("times", newest - 1, newest - 1)
    assert reader.followable("times", newest, newest) == is_readable
    if is_readable:
        found = [row for batch in reader.changes("times", newest, newest) for row in batch.to_pylist()]
        assert by_delta_rs(found) == sorted(ROWS)


def test_delta_rs_can_follow_times_that_spark_writes_by_default(spark: SparkSession, delta: Tables) -> None:
    fill(spark, delta, ROWS)
    reader = delta_rs(delta.namespace)
    newest = reader.versions("times")[-1]
    assert reader.followable("times", newest, newest)

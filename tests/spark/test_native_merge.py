"""A MERGE by delta-rs leaves the same rows and the same change feed as a MERGE by Spark."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.storage.arrow_types import collected
from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.log_files import commit_of
from kaspr_delta.storage.opening import open_tables
from kaspr_delta.storage.tables import Merged, Tables, Upsert
from tests.folders import folder_of
from tests.spark.test_native_look_up import ODD

pytestmark = pytest.mark.further

# ``left`` is a word of SQL; ``Some-thing`` has a capital and has to be quoted.
COLUMNS = "key STRING, left STRING, `Some-thing` BINARY, n BIGINT, live BOOLEAN, timestamp TIMESTAMP"
LAYOUT = Layout(COLUMNS, change_feed=True)
TABLES = ("by_spark", "by_delta_rs")
BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
FAR = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc)
LONG_AGO = datetime(1000, 1, 1, tzinfo=timezone.utc)

Values = tuple[str | None, str | None, bytes | None, int | None, bool | None, datetime | None]


def opened(spark: SparkSession, warehouse: Path) -> Tables:
    delta = open_tables(Warehouse(str(warehouse)).namespace("merges"))
    delta.create_schema(spark)
    for table in TABLES:
        delta.create(spark, table, LAYOUT)
    return delta


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two equal tables with odd keys, in several files."""
    warehouse = tmp_path_factory.mktemp("filled")
    delta = opened(spark, warehouse)
    rows: list[Values] = [(key, key, key.encode(), number, None, BEGAN) for number, key in enumerate(ODD)]
    rows += [
        ("empty", None, None, None, None, None),
        (None, "a", None, 1, True, BEGAN),
        ("far", "f", b"", 0, True, FAR),
    ]
    for table in TABLES:
        for part in (rows[:5], rows[5:]):
            delta.append(spark, spark.createDataFrame(part, COLUMNS).coalesce(1), table)
    return warehouse


@pytest.fixture
def delta(spark: SparkSession, filled: Path, tmp_path: Path) -> Tables:
    """A copy of these tables."""
    shutil.copytree(filled, tmp_path / "wh")
    return opened(spark, tmp_path / "wh")


def merge(delta: Tables, rows: DataFrame, table: str) -> Merged:
    upsert = Upsert(compare=("left", "Some-thing", "n"), also=("timestamp", "live"), keep="keep")
    return delta.merge(rows.sparkSession, collected(rows) if table == "by_delta_rs" else rows, table, upsert)


def rows_to_merge(spark: SparkSession, rows: Sequence[tuple[Values, bool]]) -> DataFrame:
    return spark.createDataFrame([(*values, keep) for values, keep in rows], f"{COLUMNS}, keep BOOLEAN").coalesce(1)


def in_order(rows: DataFrame) -> list[Row]:
    hidden = [name for name in rows.columns if name in {"_commit_version", "_commit_timestamp"}]
    return sorted(rows.drop(*hidden).collect(), key=repr)


def written_by_delta_rs(delta: Tables, version: int) -> bool:
    commit = commit_of(LocalFolder(folder_of(delta.namespace, "by_delta_rs")), version)
    return commit is not None and "num_target_rows_copied" in commit.metrics


def assert_equal_merges(
    spark: SparkSession, delta: Tables, *rows: tuple[Values, bool], by_delta_rs: bool = True
) -> None:
    before = delta.newest(spark, "by_delta_rs").version
    by_spark, merged = (merge(delta, rows_to_merge(spark, rows), table) for table in TABLES)
    newest = {table: delta.newest(spark, table).version for table in TABLES}
    assert merged.rows == by_spark.rows
    assert newest["by_delta_rs"] == before + 1
    assert written_by_delta_rs(delta, before + 1) is by_delta_rs
    assert in_order(delta.read(spark, "by_delta_rs")) == in_order(delta.read(spark, "by_spark"))
    feeds = {table: in_order(delta.changes(spark, table, version)) for table, version in newest.items()}
    assert feeds["by_delta_rs"] == feeds["by_spark"]


def test_a_merge_changes_inserts_and_deletes_rows_as_spark_does(spark: SparkSession, delta: Tables) -> None:
    """NULL differs from every value, and a NULL key matches no row."""
    changed = [((key, "new", None, 7, True, LONG_AGO), True) for key in ODD[::3]]
    gone = [((key, None, None, None, None, None), False) for key in [*ODD[1::3], "never was"]]
    new: list[tuple[Values, bool]] = [(("new", None, b"\xff\x00", -1, False, FAR), True)]
    nulls: list[tuple[Values, bool]] = [
        ((None, "b", None, 2, True, BEGAN), True),
        (("empty", "", None, None, True, FAR), True),
        ((ODD[2], None, None, None, None, None), True),
    ]
    assert_equal_merges(spark, delta, *changed, *gone, *new, *nulls)
    assert_equal_merges(
        spark, delta, (("far", "f", b"", 0, False, FAR), True), (("new", None, b"", -1, True, FAR), True)
    )


def test_a_merge_rewrites_only_files_with_a_changed_row(spark: SparkSession, delta: Tables) -> None:
    same = ("a", "a", b"a", ODD.index("a"), True, FAR)  # differs only in columns that are not compared
    before = in_order(delta.read(spark, "by_delta_rs"))
    for unchanged in ([], [(same, True), (("empty", None, None, None, True, FAR), True)]):
        assert merge(delta, rows_to_merge(spark, unchanged), "by_delta_rs") == Merged(0)
    assert in_order(delta.read(spark, "by_delta_rs")) == before
    done = merge(delta, rows_to_merge(spark, [((ODD[0], "new", None, 7, True, BEGAN), True)]), "by_delta_rs")
    assert done == Merged(1, copied=4, rewritten=1)


def test_numbers_and_dates_are_compared_as_spark_compares_them(spark: SparkSession, delta: Tables) -> None:
    columns = "key STRING, x DOUBLE, y FLOAT, day DATE, price DECIMAL(38, 4)"
    upsert = Upsert(compare=("x", "y", "day", "price"), also=(), keep="keep")
    day, price, nan = date(2024, 5, 1), Decimal("1.5000"), float("nan")
    most, least = (Decimal(f"{sign}{34 * '9'}.9999") for sign in ("", "-"))
    stored: dict[str, tuple[Any, ...]] = {
        "same": (0.1, 0.1, day, price),
        "nan": (nan, nan, date.min, most),
        "zero": (0.0, 0.0, day, least),
        "null": (None, None, None, None),
        "gone": (1.0, 1.0, day, price),
    }
    given = stored | {"zero": (-0.0, 0.0, day, least), "null": (None, None, date.max, None)}
    given["new"] = (nan, 1e-45, day, most)
    rows = [(key, *row, key != "gone") for key, row in given.items()]
    frame = spark.createDataFrame(rows, f"{columns}, keep BOOLEAN").coalesce(1)
    for table, changed in (("typed_by_spark", frame), ("typed_by_delta_rs", collected(frame))):
        delta.create(spark, table, Layout(columns, change_feed=True))
        first = spark.createDataFrame([(key, *row) for key, row in stored.items()], columns).coalesce(1)
        delta.append(spark, first, table)
        assert delta.merge(spark, changed, table, upsert).rows == 4
    commit = commit_of(LocalFolder(folder_of(delta.namespace, "typed_by_delta_rs")), 2)
    assert commit is not None
    assert "num_target_rows_copied" in commit.metrics
    shown = [[repr(row) for row in in_order(delta.read(spark, f"typed_{by}"))] for by in TABLES]
    assert shown[0] == shown[1]
    feeds = [[repr(row) for row in in_order(delta.changes(spark, f"typed_{by}", 2))] for by in TABLES]
    assert feeds[0] == feeds[1]


def test_minus_zero_differs_from_zero_and_nan_from_nothing(spark: SparkSession, delta: Tables) -> None:
    columns = "key STRING, x DOUBLE, s STRUCT<f: FLOAT>"
    upsert = Upsert(compare=("x", "s"), also=(), keep="keep")
    stored = [("zero", 0.0, (1.0,)), ("nan", float("nan"), None), ("field", 1.0, (0.0,)), ("same", 0.1, (0.1,))]
    given = [("zero", -0.0, (1.0,)), ("nan", float("nan"), None), ("field", 1.0, (-0.0,)), ("same", 0.1, (0.1,))]
    rows = spark.createDataFrame([(*row, True) for row in given], f"{columns}, keep BOOLEAN").coalesce(1)
    for table, frame in (("floats_by_spark", rows), ("floats_by_delta_rs", collected(rows))):
        delta.create(spark, table, Layout(columns))
        delta.append(spark, spark.createDataFrame(stored, columns).coalesce(1), table)
        assert delta.merge(spark, frame, table, upsert).rows == 2
        found = {row["key"]: repr((row["x"], row["s"])) for row in delta.read(spark, table).collect()}
        assert (found["zero"], found["field"]) == ("(-0.0, Row(f=1.0))", "(1.0, Row(f=-0.0))")


@pytest.mark.parametrize(
    "change",
    [
        "SET TBLPROPERTIES (delta.enableDeletionVectors = true)",
        "SET TBLPROPERTIES (delta.columnMapping.mode = 'name')",
        "ADD COLUMNS (more STRUCT<a: INT>)",
    ],
)
@pytest.mark.slow
def test_spark_merges_tables_that_delta_rs_cannot_write(spark: SparkSession, delta: Tables, change: str) -> None:
    for table in TABLES:
        spark.sql(f"ALTER TABLE {delta.namespace.identifier(table)} {change}")
    assert_equal_merges(spark, delta, (("a", "new", None, 7, True, BEGAN), True), by_delta_rs=False)


def test_spark_merges_tables_whose_times_delta_rs_would_misread(spark: SparkSession, delta: Tables) -> None:
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        for table in TABLES:
            old = spark.createDataFrame([("old", None, None, None, None, FAR)], COLUMNS).coalesce(1)
            delta.append(spark, old, table)
    finally:
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    assert_equal_merges(
        spark,
        delta,
        (("a", "new", None, 7, True, BEGAN), True),
        (("old", "o", None, 1, True, FAR), True),
        by_delta_rs=False,
    )


def test_several_source_rows_of_a_key_and_violated_constraints_raise_the_error_of_spark(
    spark: SparkSession, delta: Tables
) -> None:
    twice = rows_to_merge(spark, [(("a", text, None, 7, True, BEGAN), True) for text in "xy"])
    large = rows_to_merge(spark, [(("a", "new", None, 100, True, BEGAN), True)])
    for table in TABLES:
        with pytest.raises(Exception, match="DELTA_MULTIPLE_SOURCE_ROW_MATCHING"):
            merge(delta, twice, table)
        spark.sql(f"ALTER TABLE {delta.namespace.identifier(table)} ADD CONSTRAINT small CHECK (n IS NULL OR n < 100)")
        with pytest.raises(Exception, match="CHECK constraint"):
            merge(delta, large, table)
        assert delta.read(spark, table).where(F.col("n") > 99).isEmpty()

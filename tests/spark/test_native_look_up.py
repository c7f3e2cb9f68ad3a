"""Look-ups without Spark find the same rows as Spark, also with odd keys, deletion vectors and renamed columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.rows_by_key import found_rows
from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.limits import Limits
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import open_tables
from kaspr_delta.storage.tables import Tables

pytestmark = pytest.mark.further

TABLE = "rows"
LAYOUT = Layout("key STRING, value STRING, timestamp TIMESTAMP", change_feed=True)
ODD = [
    *("", "'", '"', "\\", "\\'", "a\nb", "${spark.app.name}", "{x}", "é", "\u2028", "🐟", "%", "_", "A", "a", " a"),
    *("null", "\x00", "e\u0301", "a\r\nb"),
    # Long texts: the statistics of files hold only the beginning of the least and greatest text.
    *(64 * "k" + end for end in ("", "a", "é", "\uffff", "🐟")),
    *(length * "z" for length in (31, 32, 33, 77, 60_000)),
]
COLUMNS = "key STRING, value STRING, timestamp TIMESTAMP"


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Tables:
    """A table with odd keys and a NULL key in two commits; the second lacks only the first key."""
    delta = open_tables(Warehouse(str(tmp_path)).namespace("look_up"))
    delta.create_schema(spark)
    delta.create(spark, TABLE, LAYOUT)
    for number in range(2):
        rows = [(key, f"{key}{number}", None) for key in [*ODD[number:], None]]
        delta.append(spark, spark.createDataFrame(rows, COLUMNS).withColumn("timestamp", F.current_timestamp()), TABLE)
    return delta


def assert_found(spark: SparkSession, delta: Tables, version: int | None = None) -> None:
    """Assert it for texts that are searched for, and for limits with which all rows are read."""
    all_read = open_tables(delta.namespace, Limits(searched_texts=0))
    for keys in ([], ["a"], ["gone", "\\"], ODD):
        expected = delta.read(spark, TABLE, version).where(F.col("key").isin(keys))
        rows = sorted(expected.collect())
        for reader in (delta, all_read):
            assert isinstance(reader.look_up(spark, TABLE, {"key": keys}, version), pa.Table)
            found = found_rows(reader, spark, TABLE, {"key": keys}, version).df
            assert found.schema == expected.schema
            assert sorted(found.collect()) == rows


def test_odd_keys_are_found_at_every_version_unless_a_deletion_vector_removed_them(
    spark: SparkSession, delta: Tables
) -> None:
    assert_found(spark, delta)
    assert_found(spark, delta, 1)
    name = delta.namespace.identifier(TABLE)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
    delta.delete(spark, TABLE, "key IN ('a', 'é')")
    assert_found(spark, delta)


@pytest.mark.slow
def test_a_look_up_gives_renamed_columns_their_present_names(spark: SparkSession, delta: Tables) -> None:
    name = delta.namespace.identifier(TABLE)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES (delta.columnMapping.mode = 'name')")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN value TO was_value")
    delta.append(
        spark, spark.createDataFrame([("a", "new", None)], COLUMNS).withColumnRenamed("value", "was_value"), TABLE
    )
    assert_found(spark, delta)

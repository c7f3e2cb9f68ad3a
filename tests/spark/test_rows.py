"""Rows go from the driver to Spark and back without loss, and their numbers fit one commit."""

from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.sequence import version_of
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.storage.arrow_types import arrow_schema_of, collected, frame_of

pytestmark = pytest.mark.spark

AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, timezone.utc)
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("part", pa.struct([("at", pa.timestamp("us", "UTC"))]))])


@pytest.mark.parametrize(
    "sizes", [[], [0], [3], [0, 3], [0, 0, 3], [3, 0, 2], [3, 0, 0, 2], [0, 0, 0, 5, 0, 0, 5], [10_000], [0, 0, 10_001]]
)
def test_rows_reach_spark_however_their_batches_are_cut(spark: SparkSession, sizes: list[int]) -> None:
    total = sum(sizes)
    every = pa.Table.from_pylist(
        [{"n": n, "text": str(n), "part": {"at": AT} if n % 2 else None} for n in range(total)], SCHEMA
    )
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    cut = [
        every.slice(start, size).combine_chunks().to_batches() if size else [pa.RecordBatch.from_pylist([], SCHEMA)]
        for start, size in zip(starts, sizes, strict=True)
    ]
    table = pa.Table.from_batches([batch for piece in cut for batch in piece], SCHEMA)
    assert collected(LocalRows(spark, table).df).sort_by("n").to_pylist() == every.to_pylist()


def test_rows_returned_in_pieces_have_the_same_count_in_spark(spark: SparkSession) -> None:
    batch = pa.RecordBatch.from_pylist([{"n": 1}, {"n": 2}], pa.schema([("n", pa.int64())]))
    rows = LocalRows(spark, pa.Table.from_batches([batch]))
    twice = rows.map(
        lambda given: (piece for one in given for piece in (one.slice(0, 0), one.slice(0, 0), one)), "n BIGINT"
    )
    assert twice.count() == twice.df.count() == 2


def test_the_arrow_schema_of_a_dataframe_equals_that_of_its_collected_rows(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT 1.25 AS price, DATE '2026-01-02' AS day, TIMESTAMP '2026-01-02 03:04:05' AS at,"
        " TIMESTAMP_NTZ '2026-01-02 03:04:05' AS local, array(struct('a' AS name, 1L AS n)) AS parts,"
        " map('a', 1.5D) AS weights, X'00' AS bytes, parse_json('1') AS any, NULL AS nothing"
    )
    given = collected(frame)
    assert given.schema == arrow_schema_of(frame.schema)
    assert collected(frame_of(spark, given)).equals(given)
    assert collected(frame.where("price > 2")).equals(given.schema.empty_table())


@pytest.mark.slow
def test_row_numbers_of_many_tasks_fit_one_commit(spark: SparkSession) -> None:
    """A greater number would be the offset of a record of a later commit."""
    rows = SparkRows(spark.range(5_000).repartition(1_100, "id")).numbered("id")
    numbers = [row["seq"] for row in rows.df.select("seq").collect()]
    assert len(set(numbers)) == 5_000
    assert {version_of(number) for number in numbers} == {0}

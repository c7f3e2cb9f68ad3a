"""Rows that are held on the driver are all there in Spark too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kaspr_delta.engine.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("part", pa.struct([("at", pa.timestamp("us", "UTC"))]))])


@pytest.mark.parametrize(
    "sizes", [[], [0], [3], [0, 3], [0, 0, 3], [3, 0, 2], [3, 0, 0, 2], [0, 0, 0, 5, 0, 0, 5], [10_000], [0, 0, 10_001]]
)
def test_however_they_are_cut(spark: SparkSession, sizes: list[int]) -> None:
    total = sum(sizes)
    every = pa.Table.from_pylist([{"n": n, "text": str(n), "part": None} for n in range(total)], SCHEMA)
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    cut = [
        every.slice(start, size).combine_chunks().to_batches() if size else [pa.RecordBatch.from_pylist([], SCHEMA)]
        for start, size in zip(starts, sizes, strict=True)
    ]
    table = pa.Table.from_batches([batch for piece in cut for batch in piece], SCHEMA)
    assert sorted(row["n"] for row in Rows.held(spark, table).df.select("n").collect()) == list(range(total))


def test_rows_that_a_function_gives_in_pieces(spark: SparkSession) -> None:
    batch = pa.RecordBatch.from_pylist([{"n": 1}, {"n": 2}], pa.schema([("n", pa.int64())]))
    rows = Rows.held(spark, pa.Table.from_batches([batch]))
    twice = rows.map_arrow(
        lambda given: (piece for one in given for piece in (one.slice(0, 0), one.slice(0, 0), one)), "n BIGINT"
    )
    assert twice.count() == twice.df.count() == 2

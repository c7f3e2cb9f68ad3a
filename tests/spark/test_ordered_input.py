"""Records of a large batch are read in order and in pieces. Effects that are too many to hold are in a file."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import union_of
from kaspr_delta.engine.rows.sequence import end_of
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.rows.spill import rows_made
from kaspr_delta.engine.streams.offset_range import Received, in_offset_order
from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.limits import Limits, Size
from tests.limits import set_limits
from tests.manifests import opened
from tests.spark.channels import values_of

pytestmark = pytest.mark.spark

MANIFESTS = """
KasprTable/sums: {defaultSelector: {python: "def default(): return int"}}
KasprAgent/add:
  input: {topic: {name: numbers}}
  output: {topics: [{name: totals}]}
  processors:
    pipeline: [add]
    operations:
      - name: add
        tables: [{name: sums, paramName: sums}]
        map:
          python: |
            def add(number, sums):
                sums["all"] += number
                return sums["all"]
"""
COLUMNS = "source STRING, key BINARY, value BINARY, offset BIGINT"


@dataclass
class CountingFeed:
    """A feed that can read the records of a batch again, and counts how often it does."""

    records: DataFrame
    read: int = 0

    def between(self, spark: SparkSession, after: Mapping[str, int], upto: Mapping[str, int]) -> DataFrame:  # noqa: ARG002
        self.read += 1
        pieces = [
            self.records.where((F.col("source") == source) & F.col("offset").between(after[source] + 1, last))
            for source, last in upto.items()
        ]
        return union_of(pieces)


@pytest.mark.parametrize(
    ("few", "piece", "commits", "whole", "pieces"),
    [
        (1_000, 40, 1, True, 1),
        (10, 100, 12, False, 20),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (10, 10_000, 12, True, 1),
                (10, 40, 12, False, 47),
                (10, 40, 1, True, 38),
                (10, 40, 12, True, 47),
                (10, 1, 12, True, 93),  # records with the same offset stay in one piece
                (10, 10_000, 1, False, 1),
            )
        ),
    ],
)
def test_records_of_a_batch_come_once_each_in_offset_order(
    spark: SparkSession,
    *,
    few: int,
    piece: int,
    commits: int,
    whole: bool,
    pieces: int,
) -> None:
    limits = Limits(ordered_records=few, ordered_piece=piece)
    drawn = random.Random(few + piece)  # noqa: S311  no secret
    later = {"a": 0, "b": 0, "c": (3 if commits > 1 else 0)}
    rows = [
        (
            source,
            None if n % 3 == 0 else b"k",
            b"x" * drawn.randrange(30) if n % 5 else None,
            n + end_of(n % commits + later[source]),
        )
        for n in range(1, 61)
        for source in drawn.sample(["a", "b", "c"], k=2)
    ]
    mixed = spark.createDataFrame(drawn.sample(rows, len(rows)), COLUMNS).repartition(3)
    # A batch may have only some files of a commit: records of other batches lie before and between its own.
    of_other_batches = [] if whole else [("a", None, None, end_of(n % commits) + 100 - n) for n in range(1, 13)]
    # Source c is ahead: earlier batches have read its first commits.
    of_other_batches += [("c", None, None, n + end_of(version)) for n in (1, 7) for version in range(later["c"])]
    feed = CountingFeed(mixed.union(spark.createDataFrame(of_other_batches, COLUMNS)))
    received = Received()
    found = [
        piece.select(["source", "key", "value", "offset"]).to_pylist()
        for piece in received.counted(in_offset_order(SparkRows(mixed), feed, limits))
    ]
    assert bool(feed.read) == (few < len(rows))
    assert [tuple(row.values()) for piece in found for row in piece] == sorted(rows, key=lambda row: (row[3], row[0]))
    assert sum(received.rows.values()) == len(rows)
    assert received.positions == {source: max(row[3] for row in rows if row[0] == source) for source in "abc"}
    assert len(found) == pieces


def test_a_batch_may_be_empty(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], COLUMNS)
    (nothing,) = in_offset_order(SparkRows(empty), CountingFeed(empty), Limits())
    assert nothing.num_rows == 0


def test_rows_that_do_not_fit_in_memory_are_in_a_file_while_they_are_used(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("text", pa.string())])

    def made() -> Iterator[pa.RecordBatch]:
        for n in range(10):
            yield pa.RecordBatch.from_pylist([{"n": n, "text": None if n % 2 else str(n)}] * 3, schema)

    expected = [(n, None if n % 2 else str(n)) for n in range(10) for _ in range(3)]
    assert isinstance(rows_made(spark, made(), schema, LocalFolder(tmp_path / "files"), Limits()), LocalRows)
    (tmp_path / "files" / "of-one-that-was-killed").mkdir(parents=True)
    rows = rows_made(spark, made(), schema, LocalFolder(tmp_path / "files"), Limits(small_batch=Size(20_000, 100)))
    assert not isinstance(rows, LocalRows)
    assert sorted(map(tuple, rows.df.collect()), key=str) == sorted(expected, key=str)
    assert len(list((tmp_path / "files").iterdir())) == 1
    del rows
    gc.collect()
    assert list((tmp_path / "files").iterdir()) == []


@pytest.mark.further
def test_an_agent_processes_large_batches_in_order_and_counts_a_commit_in_several_batches_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    limits = Limits(ordered_records=5, ordered_piece=30, small_batch=Size(20_000, 100))
    app = opened(spark, tmp_path, "sums", MANIFESTS, limits=limits)
    app.topic("numbers").produce([{"value": n} for n in range(20)])
    app.topic("numbers").produce([{"value": n} for n in range(20, 30)])
    app.run()
    assert values_of(app, "totals") == [sum(range(n + 1)) for n in range(30)]
    assert app.table("sums").to_dict() == {"all": sum(range(30))}

    set_limits(app, ordered_batch="1b")  # each batch reads one file
    records = spark.range(30, 60).select(
        F.encode(F.col("id").cast("string"), "UTF-8").alias("value"),
        F.col("id").alias("seq"),
        F.lit(0).alias("partition"),
        F.current_timestamp().alias("timestamp"),
        F.lit(None).cast("binary").alias("key"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
    )
    app.delta.append(app.spark, records.repartition(4), "topic__numbers")
    app.run()
    assert app.table("sums").to_dict() == {"all": sum(range(60))}
    batches = app.sql("SELECT count(*) AS n FROM log__add WHERE memo IS NOT NULL AND start IS NULL").first()
    assert batches is not None
    assert batches["n"] > 2  # the first run had one
    assert len(app.topic("totals").records()) == 60


def test_an_agent_that_looks_up_few_keys_ahead_loses_no_write(spark: SparkSession, tmp_path: Path) -> None:
    only_writes = MANIFESTS.replace("  output: {topics: [{name: totals}]}\n", "")
    # A function that uses its event is called event by event, not by column.
    by_event = only_writes.replace('sums["all"]', 'sums[context["event"].key]')
    limits = Limits(keys_ahead=5)
    app = opened(spark, tmp_path, "sums", by_event, limits=limits)
    app.topic("numbers").produce([{"key": f"k{n % 3}", "value": n} for n in range(60)])
    app.run()
    assert app.table("sums").to_dict() == {f"k{first}": sum(range(first, 60, 3)) for first in range(3)}

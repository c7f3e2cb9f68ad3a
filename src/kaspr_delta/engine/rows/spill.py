"""Rows that were computed on the driver and are too many for its memory: Spark reads them from a file."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Iterable, Iterator
from itertools import chain, islice

import pyarrow as pa
from pyarrow.parquet import ParquetWriter
from pyspark.sql import DataFrame, SparkSession

from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.storage.arrow_types import spark_schema_of
from kaspr_delta.storage.folders import Folder, discard
from kaspr_delta.storage.limits import Limits


def rows_made(
    spark: SparkSession, batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: Folder, limits: Limits
) -> Rows:
    """The rows of batches: on the driver up to the bytes of a small batch; more of them in a file, read by Spark.

    The file is written to the folder, and removed when the rows are no longer used. Only one caller at a time may use
    the folder. Spark's workers have to see it.
    """
    most = limits.small_batch.bytes
    groups = _groups(batches, schema, most)
    first = next(groups, schema.empty_table())
    more = list(islice(groups, 1))
    if not more and first.nbytes <= most:
        return LocalRows(spark, first)
    return SparkRows(_spilled(spark, chain([first], more, groups), schema, folder))


def _spilled(spark: SparkSession, groups: Iterable[pa.Table], schema: pa.Schema, folder: Folder) -> DataFrame:
    discard(folder)  # of a process that was killed
    own = folder / uuid.uuid4().hex
    with own.writing("rows.parquet") as file, ParquetWriter(file, schema) as rows_in:
        for group in groups:
            rows_in.write_table(group)
    rows = spark.read.schema(spark_schema_of(schema)).parquet(own.for_spark)
    weakref.finalize(rows, discard, own).atexit = own.is_here  # a bucket may not answer; the next process removes it
    return rows


def _groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema, most: int) -> Iterator[pa.Table]:
    """Batches in groups of at most so many bytes, or of one batch."""
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if group and size + batch.nbytes > most:
            yield pa.Table.from_batches(group, schema)
            group, size = [], 0
        group.append(batch)
        size += batch.nbytes
    if group:
        yield pa.Table.from_batches(group, schema)

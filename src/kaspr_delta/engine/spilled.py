"""Rows that were made on the driver and are too many to be held there: Spark gets them by way of a file."""

from __future__ import annotations

import shutil
import uuid
import weakref
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from kaspr_delta.engine.rows import SOME_BYTES, Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows_made(spark: SparkSession, batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: Path) -> Rows:
    """The rows, held while they are no more than ``SOME_BYTES``; others stand in the folder while they are in use.

    The folder is the caller's alone, one such batch at a time; Spark's workers have to see it.
    """
    held: list[pa.RecordBatch] = []
    some = iter(batches)
    for batch in some:
        held.append(batch)
        if sum(one.nbytes for one in held) > SOME_BYTES:
            return Rows(_spilled(spark, chain(held, some), schema, folder))
    return Rows.held(spark, pa.Table.from_batches(held, schema))


def _spilled(spark: SparkSession, batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: Path) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    place = folder / uuid.uuid4().hex
    place.mkdir(parents=True)
    with ParquetWriter(place / "rows.parquet", schema) as file:
        for rows in _row_groups(batches, schema):
            file.write_table(rows)
    rows = spark.read.schema(from_arrow_schema(schema, prefer_timestamp_ntz=True)).parquet(str(place))
    weakref.finalize(rows, shutil.rmtree, place, ignore_errors=True)
    return rows


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterable[pa.Table]:
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += batch.nbytes
        if size > SOME_BYTES:
            yield pa.Table.from_batches(group, schema)
            group, size = [], 0
    if group:
        yield pa.Table.from_batches(group, schema)

"""The server for tests on Spark Connect is as strict as serverless compute, also in its Python processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.connect import ON_CONNECT
from tests.serverless import WORKER_MEMORY

pytestmark = pytest.mark.skipif(ON_CONNECT not in os.environ, reason="only the server of Spark Connect is so strict")
LARGE = WORKER_MEMORY + (100 << 20)


def test_batches_cannot_change_settings(spark: SparkSession, tmp_path: Path) -> None:
    def change_a_setting(batch: DataFrame) -> None:
        batch.sparkSession.conf.set("spark.sql.adaptive.enabled", "false")

    assert "CONFIG_NOT_AVAILABLE" in failure_of_batch(spark, tmp_path, change_a_setting)


def test_batches_cannot_cache(spark: SparkSession, tmp_path: Path) -> None:
    def cache(batch: DataFrame) -> None:
        batch.cache()

    assert "NOT_SUPPORTED_WITH_SERVERLESS" in failure_of_batch(spark, tmp_path, cache)


def test_batches_have_one_gigabyte_of_memory(spark: SparkSession, tmp_path: Path) -> None:
    def hold_much(_: DataFrame) -> None:
        bytearray(LARGE)

    assert "MemoryError" in failure_of_batch(spark, tmp_path, hold_much)


def test_functions_have_one_gigabyte_of_memory(spark: SparkSession) -> None:
    def hold_much(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bytearray(LARGE)
        yield from batches

    with pytest.raises(Exception, match="MemoryError"):
        spark.range(1).mapInArrow(hold_much, "id long").collect()


def failure_of_batch(spark: SparkSession, folder: Path, function: Any) -> str:
    """The error that stopped a stream whose batches are handled by a function."""
    spark.range(3).write.format("delta").save(str(folder / "rows"))
    rows = spark.readStream.format("delta").load(str(folder / "rows"))
    writer = rows.writeStream.foreachBatch(lambda batch, _: function(batch)).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    with pytest.raises(Exception) as failed:  # noqa: PT011
        query.awaitTermination()
    return str(failed.value)

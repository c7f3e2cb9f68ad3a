"""Counters that outlive the process: the progress row of each batch holds its increments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.storage.layout import PROGRESS
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def summed_counters(delta: Tables, spark: SparkSession) -> dict[str, int]:
    """The sums of all counters of an application, by name (see ``engine.batch.counters``)."""
    counts = F.explode(F.from_json("counts", "MAP<STRING, BIGINT>")).alias("counter", "times")
    summed = delta.read(spark, PROGRESS).select(counts).groupBy("counter").agg(F.sum("times").alias("times"))
    return {row["counter"]: row["times"] for row in summed.collect()}

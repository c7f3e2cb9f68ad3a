"""Counters that outlive the process, by Kaspr's names: each batch tells what it added, in its progress row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.engine.counters import Metric, as_metrics
from kaspr_delta.storage.delta import Delta
from kaspr_delta.storage.layout import PROGRESS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def metrics(delta: Delta, spark: SparkSession) -> list[Metric]:
    """All counters of an application, sorted."""
    counts = F.explode(F.from_json("counts", "MAP<STRING, BIGINT>")).alias("counter", "times")
    summed = delta.read(spark, PROGRESS).select(counts).groupBy("counter").agg(F.sum("times").alias("times"))
    return as_metrics({row["counter"]: row["times"] for row in summed.collect()})

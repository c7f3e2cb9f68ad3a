"""Counters that outlive the process, by Kaspr's names: each batch tells what it added, in its progress row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.storage.delta import Delta
from kaspr_delta.storage.layout import PROGRESS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The labels of each metric, in the order in which a counter's name holds their values.
LABELS = {
    "table_operations": ("table", "operation"),
    "messages_received_per_topic": ("topic",),
    "topic_messages_sent": ("topic",),
}


@dataclass(frozen=True, slots=True, order=True)
class Metric:
    """The value of a counter, summed over all batches that were committed."""

    name: str
    labels: Mapping[str, str]
    value: int


def counter(metric: str, *labels: str) -> str:
    """The name of a counter: a metric with the values of its labels."""
    return json.dumps([metric, *labels])


def metrics(delta: Delta, spark: SparkSession) -> list[Metric]:
    """All counters of an application, sorted."""
    counts = F.explode(F.from_json("counts", "MAP<STRING, BIGINT>")).alias("counter", "times")
    summed = delta.read(spark, PROGRESS).select(counts).groupBy("counter").agg(F.sum("times").alias("times"))
    found = [(json.loads(row["counter"]), row["times"]) for row in summed.collect()]
    return [
        Metric(name, dict(zip(LABELS.get(name, ()), labels, strict=False)), times)
        for (name, *labels), times in sorted(found)
    ]

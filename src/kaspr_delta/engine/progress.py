"""How far each resource's log is folded, and what each batch did: one appended row per batch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.engine.log import BatchId
from kaspr_delta.storage.delta import Delta
from kaspr_delta.storage.layout import PROGRESS, SYSTEM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What a batch did. ``rows_out`` are records and table writes, ``seconds`` is wall-clock time."""

    rows_in: int
    rows_out: int
    dead_letters: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one resource."""

    delta: Delta
    resource: str

    def record(self, spark: SparkSession, batch: BatchId, report: BatchReport) -> None:
        """Write down that a batch is folded, and what it did."""
        counts = (report.rows_in, report.rows_out, report.dead_letters, report.seconds)
        row = (self.resource, batch.checkpoint, batch.number, *counts, datetime.now(timezone.utc))
        self.delta.append(spark.createDataFrame([row], SYSTEM[PROGRESS].columns).coalesce(1), PROGRESS)


def folded_batches(delta: Delta, spark: SparkSession) -> dict[str, dict[str, int]]:
    """By resource and checkpoint, the last batch that is folded; batches are folded in order."""
    rows = delta.read(spark, PROGRESS).groupBy("resource", "checkpoint").agg(F.max("batch").alias("batch"))
    folded: dict[str, dict[str, int]] = {}
    for row in rows.collect():
        folded.setdefault(row["resource"], {})[row["checkpoint"]] = row["batch"]
    return folded

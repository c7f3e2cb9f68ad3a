"""How far each resource's log is folded, and what each batch did: one appended row per batch."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.engine.log import BatchId
from kaspr_delta.storage.delta import Delta
from kaspr_delta.storage.layout import DEAD_LETTERS, PROGRESS, RETENTION, SYSTEM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What a batch did.

    ``rows_out`` are records and table writes; ``stale`` are left rows that had changed since they subscribed, and were
    computed anew; ``conflicts`` are commits that somebody else's commit forced to be repeated; ``seconds`` is
    wall-clock time.
    """

    rows_in: int
    rows_out: int
    dead_letters: int
    stale: int
    conflicts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one resource."""

    delta: Delta
    resource: str

    def record(self, spark: SparkSession, batch: BatchId, report: BatchReport) -> None:
        """Write down that a batch is folded, and what it did."""
        row = (self.resource, batch.checkpoint, batch.number, *astuple(report), datetime.now(timezone.utc))
        self.delta.append(spark.createDataFrame([row], SYSTEM[PROGRESS].columns).coalesce(1), PROGRESS)


def folded_batches(delta: Delta, spark: SparkSession) -> dict[str, dict[str, int]]:
    """By resource and checkpoint, the last batch that is folded; batches are folded in order."""
    rows = delta.read(spark, PROGRESS).groupBy("resource", "checkpoint").agg(F.max("batch").alias("batch"))
    folded: dict[str, dict[str, int]] = {}
    for row in rows.collect():
        folded.setdefault(row["resource"], {})[row["checkpoint"]] = row["batch"]
    return folded


def forget_old(delta: Delta, spark: SparkSession) -> None:
    """Delete what the system tables need to keep no longer (``storage.layout.RETENTION``).

    Of each checkpoint the last batch stays, for it says how far the log is folded.
    """
    cutoff = f"at < current_timestamp() - INTERVAL {RETENTION[PROGRESS]} DAYS"
    oldest = F.min(F.when(F.expr(cutoff), F.col("batch"))).alias("oldest")
    checkpoints = delta.read(spark, PROGRESS).groupBy("checkpoint").agg(oldest, F.max("batch").alias("last"))
    for row in checkpoints.where("oldest < last").collect():
        delta.delete(spark, PROGRESS, f"{cutoff} AND checkpoint = '{row['checkpoint']}' AND batch < {row['last']}")
    letters = f"at < current_timestamp() - INTERVAL {RETENTION[DEAD_LETTERS]} DAYS"
    if not delta.read(spark, DEAD_LETTERS).where(letters).isEmpty():
        delta.delete(spark, DEAD_LETTERS, letters)

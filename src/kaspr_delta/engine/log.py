"""The log of a resource: one append per batch is the batch's only commit point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from kaspr_delta.engine.rows import Rows
from kaspr_delta.storage.delta import Delta, Transaction

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


@dataclass(frozen=True, slots=True, order=True)
class BatchId:
    """A batch: batch 7 of a new checkpoint is not the batch 7 of an old one. Names of checkpoints sort by age."""

    checkpoint: str
    number: int

    def transaction(self, purpose: str) -> Transaction:
        """The transaction of what is appended for this batch to one place."""
        return Transaction(f"{self.checkpoint}:{purpose}", self.number)


@dataclass(frozen=True, slots=True)
class Log:
    """An append-only Delta table with what the batches of one resource decided."""

    delta: Delta
    table: str

    def append(self, rows: Rows, batch: BatchId) -> Rows:
        """Commit a batch, and return its rows as the log has them. A second append of a batch is skipped by Delta."""
        marked = rows.df.withColumns(
            {"checkpoint": F.lit(batch.checkpoint), "batch": F.lit(batch.number).cast("bigint")}
        )
        self.delta.append(marked, self.table, batch.transaction("log"))
        if rows.table is None:  # many rows: not computed a second time, but read back
            return self.batch(rows.df.sparkSession, batch)
        count = rows.table.num_rows
        table = rows.table.append_column("checkpoint", pa.array([batch.checkpoint] * count, pa.string()))
        return Rows(marked, table.append_column("batch", pa.array([batch.number] * count, pa.int64())))

    def batch(self, spark: SparkSession, batch: BatchId) -> Rows:
        """The rows of one batch."""
        mine = (F.col("checkpoint") == batch.checkpoint) & (F.col("batch") == batch.number)
        return Rows(self.delta.read(spark, self.table).where(mine))

    def unfolded(self, spark: SparkSession, folded: Mapping[str, int]) -> list[BatchId]:
        """The batches after those that are folded (the last one by checkpoint), oldest first."""
        after: list[Column] = [
            (F.col("checkpoint") != checkpoint) | (F.col("batch") > number) for checkpoint, number in folded.items()
        ]
        rows = self.delta.read(spark, self.table).where(reduce(lambda one, other: one & other, after, F.lit(True)))
        found = rows.select("checkpoint", "batch").distinct().collect()
        return sorted(BatchId(row["checkpoint"], row["batch"]) for row in found)

"""The log of a resource: one append per batch is the batch's only commit point."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from kaspr_delta.engine.rows import Rows
from kaspr_delta.storage.delta import Delta, Transaction

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# The batch with which a checkpoint begins; those of its streaming query count from 0.
_FIRST = -1
# What the state of a resource looks like. A change of its tables or of their meaning takes the next number.
STATE_FORMAT = 1


@dataclass(frozen=True, slots=True, order=True)
class BatchId:
    """A batch: batch 7 of a new checkpoint is not the batch 7 of an old one. Names of checkpoints sort by age."""

    checkpoint: str
    number: int = _FIRST

    def transaction(self, purpose: str) -> Transaction:
        """The transaction of what is appended for this batch to one place."""
        return Transaction(f"{self.checkpoint}:{purpose}", self.number - _FIRST)


@dataclass(frozen=True, slots=True)
class Start:
    """What a checkpoint begins with: the definition its state is made by, and the source versions it goes on from."""

    definition: Mapping[str, str]
    versions: Mapping[str, int]
    format: int = STATE_FORMAT

    def to_json(self) -> str:
        """As it stands in the log."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Start:
        """What the log tells; of a format to come only what this version knows of."""
        fields = json.loads(text)
        return cls(fields.get("definition", {}), fields.get("versions", {}), fields.get("format", 0))


@dataclass(frozen=True, slots=True)
class LogTail:
    """What a log says to who starts: the newest checkpoint with its start, and the batches that are not folded yet.

    Of a new log there is no checkpoint and no start.
    """

    checkpoint: str = ""
    start: Start | None = None
    unfolded: tuple[BatchId, ...] = ()


@dataclass(frozen=True, slots=True)
class Log:
    """An append-only Delta table with what the batches of one resource decided."""

    delta: Delta
    table: str

    def begin(self, effects: Rows, batch: BatchId, start: Start) -> Rows:
        """Commit the first batch of a checkpoint together with its start, and return its rows as the log has them."""
        spark = effects.df.sparkSession
        row = spark.createDataFrame([(start.to_json(),)], "start STRING").coalesce(1)
        rows = row if effects.empty else effects.df.unionByName(row, allowMissingColumns=True)
        self.delta.append(_marked(rows, batch), self.table, batch.transaction("log"))
        return self.batch(spark, batch)

    def append(self, rows: Rows, batch: BatchId) -> Rows:
        """Commit a batch, and return its rows as the log has them. A second append of a batch is skipped by Delta."""
        marked = _marked(rows.df, batch)
        self.delta.append(marked, self.table, batch.transaction("log"))
        if rows.table is None:  # many rows: not computed a second time, but read back
            return self.batch(rows.df.sparkSession, batch)
        count = rows.table.num_rows
        table = rows.table.append_column("checkpoint", pa.array([batch.checkpoint] * count, pa.string()))
        return Rows(marked, table.append_column("batch", pa.array([batch.number] * count, pa.int64())))

    def batch(self, spark: SparkSession, batch: BatchId) -> Rows:
        """The effects of one batch."""
        mine = (F.col("checkpoint") == batch.checkpoint) & (F.col("batch") == batch.number)
        return Rows(self.delta.read(spark, self.table).where(mine & F.col("start").isNull()))

    def tail(self, spark: SparkSession, folded: Mapping[str, int]) -> LogTail:
        """What is to know before the first batch. ``folded`` is the last folded batch by checkpoint."""
        after: list[Column] = [
            (F.col("checkpoint") != checkpoint) | (F.col("batch") > number) for checkpoint, number in folded.items()
        ]
        beyond = reduce(lambda one, other: one & other, after, F.lit(True))
        rows = self.delta.read(spark, self.table).where(F.col("start").isNotNull() | beyond)
        effects = F.count_if(F.col("start").isNull()).alias("effects")
        found = rows.groupBy("checkpoint", "batch").agg(effects, F.max("start").alias("start")).collect()
        batches = {BatchId(row["checkpoint"], row["batch"]): row for row in found}
        if not batches:
            return LogTail()
        newest = max(batch for batch, row in batches.items() if row["start"] is not None)
        # Of a batch that is folded only its start was read.
        unfolded = tuple(sorted(batch for batch, row in batches.items() if row["effects"]))
        return LogTail(newest.checkpoint, Start.from_json(batches[newest]["start"]), unfolded)


def _marked(rows: DataFrame, batch: BatchId) -> DataFrame:
    return rows.withColumns({"checkpoint": F.lit(batch.checkpoint), "batch": F.lit(batch.number).cast("bigint")})

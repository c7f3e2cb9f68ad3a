"""Progress: how far each resource's log is folded, and a report of each batch. One appended row per batch."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from datetime import datetime, timedelta, timezone
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.storage.layout import DEAD_LETTERS, EVENTS, PROGRESS, RETENTION
from kaspr_delta.storage.system_tables import arrow_rows
from kaspr_delta.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The report of a batch.

    ``rows_out`` are records and table writes. ``stale`` are left rows that had changed since they subscribed, and were
    computed anew. ``conflicts`` are commits that were repeated because of a concurrent commit. ``seconds`` is
    wall-clock time. ``counts`` is JSON, see ``batch.counters``.
    """

    rows_in: int
    rows_out: int
    dead_letters: int
    stale: int
    conflicts: int
    seconds: float
    counts: str = "{}"


Reported: TypeAlias = tuple[BatchId, BatchReport]
"""A batch with its report."""


def record_progress(delta: Tables, spark: SparkSession, resource: str, batch: BatchId, report: BatchReport) -> None:
    """Append the report of a batch of a resource, or of its state (``storage.layout.state_ref``): it is folded."""
    row = (resource, batch.checkpoint, batch.number, *astuple(report), datetime.now(timezone.utc))
    delta.append(spark, arrow_rows(PROGRESS, [row]), PROGRESS)


def folded_batches(delta: Tables, spark: SparkSession) -> dict[str, dict[str, int]]:
    """The last folded batch, by resource and checkpoint. Batches are folded in order."""
    return folded_until(delta, spark)[0]


def folded_until(delta: Tables, spark: SparkSession) -> tuple[dict[str, dict[str, int]], datetime | None]:
    """The same with the time of the newest report, if there is one."""
    last = "SELECT resource, checkpoint, max(batch) AS batch, max(at) AS at FROM t GROUP BY resource, checkpoint"
    rows = delta.query(spark, PROGRESS, last)
    folded: dict[str, dict[str, int]] = {}
    for row in rows:
        folded.setdefault(row["resource"], {})[row["checkpoint"]] = row["batch"]
    return folded, max((row["at"] for row in rows), default=None)


def forget_old_daily(delta: Tables, spark: SparkSession, reported_at: datetime | None) -> None:
    """``forget_old`` unless the newest report is of this day, in UTC: retention is counted in days."""
    if reported_at is None or reported_at.date() != datetime.now(timezone.utc).date():
        forget_old(delta, spark)


def forget_old(delta: Tables, spark: SparkSession) -> None:
    """Delete rows of the system tables that are older than their retention (``storage.layout.RETENTION``).

    Old batches of a checkpoint become one row, which keeps the last folded batch and the summed counters.
    """
    for table in (PROGRESS, DEAD_LETTERS, EVENTS):
        old, before = "at < {before}", datetime.now(timezone.utc) - timedelta(days=RETENTION[table])
        rows = delta.scan(spark, table).where(old, before=before)
        (count,) = rows.aggregate("count(*)")
        if table == PROGRESS and count >= delta.limits.old_progress:
            delta.replace(spark, _summed(rows.df), table, old, before=before)
        elif table != PROGRESS and count:
            delta.delete(spark, table, old, before=before)


def _summed(batches: DataFrame) -> DataFrame:
    """One row for all batches of a checkpoint."""
    none = "CAST(map() AS MAP<STRING, BIGINT>)"
    both = "map_zip_with(sum, one, (name, a, b) -> coalesce(a, 0L) + coalesce(b, 0L))"
    counts = f"to_json(aggregate(collect_list(from_json(counts, 'MAP<STRING, BIGINT>')), {none}, (sum, one) -> {both}))"
    last = {name: F.max(name) for name in ("batch", "at")}
    return (
        batches.groupBy("resource", "checkpoint")
        .agg(
            *(column.alias(name) for name, column in last.items()),
            *(F.sum(one.name).alias(one.name) for one in fields(BatchReport) if one.name != "counts"),
            F.expr(counts).alias("counts"),
        )
        .select(*batches.columns)
    )

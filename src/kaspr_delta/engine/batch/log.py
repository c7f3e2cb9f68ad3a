"""The log of a resource: one append per batch commits it, or announces its commit to a topic (``topic_commit``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import narwhals as nw
import pyarrow as pa
from pyspark.sql import SparkSession

from kaspr_delta.engine.batch.checkpoint import FIRST, NEWEST_START, BatchId, Start, new_checkpoint
from kaspr_delta.engine.batch.decision import LoggedBatch
from kaspr_delta.engine.batch.topic_commit import CommitIntent, announced_records
from kaspr_delta.engine.rows.local_rows import LocalRows, union_all
from kaspr_delta.engine.rows.rows import Rows, text
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.tables import Scan, Tables

_ENDS = "SELECT checkpoint, batch, memo, start FROM t WHERE memo IS NOT NULL AND "


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """The facts about a batch that the log keeps beside its effects.

    ``stream`` is the last batch of the streaming query that is in the log, -1 before the first. ``rows_in`` and
    ``counts`` say how much the batch processed. ``state`` is handed to the resource's next batch. With ``direct`` the
    batch is only announced: the append to a topic commits it. ``folds``: a batch with a start has
    something to fold. (Older logs do not have it: there ``rows_in`` is not 0.) ``replaces``: it has all rows of the
    result, whose table is made anew, with other columns, before it is folded.
    """

    stream: int = -1
    rows_in: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    direct: CommitIntent | None = None
    folds: bool = False
    replaces: bool = False

    @property
    def needs_fold(self) -> bool:
        """Whether a batch with a start has something to fold."""
        return self.folds or self.rows_in > 0

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, memo: str) -> BatchMetadata:
        """Read the JSON text of the log. Fields of later formats are ignored."""
        fields = json.loads(memo)
        metadata = cls(**{name: fields[name] for name in cls.__dataclass_fields__ if name in fields})
        return metadata if metadata.direct is None else replace(metadata, direct=CommitIntent(*metadata.direct))


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a log: the start of the newest stream, and the metadata of the last batch.

    ``last`` has the greatest batch number in use. (A batch that was announced and never came has used its number.)
    ``start_batch`` is the batch that holds ``start``; a new log has no start. ``newest_checkpoint`` is the newest
    that the log or the progress names: a deleted log leaves progress behind.
    """

    last: BatchId = field(default=BatchId(""))
    metadata: BatchMetadata = BatchMetadata()
    start: Start | None = None
    start_batch: BatchId = field(default=BatchId(""))
    newest_checkpoint: str = ""


@dataclass
class Log:
    """An append-only Delta table with the decisions of the batches of one resource; the object knows where it ends.

    Every batch has rows for its effects, and one row with its metadata (column ``memo``). If a stream begins with the
    batch, or after it, that row holds the start too: in the first batch of a checkpoint, in batches without effects,
    and in those that the clock makes due at the end of a run.
    """

    delta: Tables
    table: str
    # Without a start until ``read_end`` or ``begin``.
    end: LogEnd = field(default=LogEnd(), init=False)

    def begin(self, effects: Rows, metadata: BatchMetadata, start: Start, *, goes_on: bool = False) -> LoggedBatch:
        """Commit the first batch of a new checkpoint.

        With ``goes_on`` it has what the checkpoint before had not read: nothing is made anew, and no batch is FIRST.
        """
        first = BatchId(new_checkpoint(self.end.newest_checkpoint))
        first = first.next if goes_on else first
        rows = self.append(effects, first, metadata, start)
        self.end = LogEnd(first, metadata, start, first, first.checkpoint)
        return first, rows

    def commit(self, effects: Rows, metadata: BatchMetadata, start: Start | None = None) -> LoggedBatch:
        """Commit the next batch, or announce it. With a ``start`` the next stream begins there, after the batch."""
        this = self.end.last.next
        rows = self.append(effects, this, metadata, start)
        self.end = replace(self.end, last=this, metadata=metadata)
        if start is not None:
            self.end = replace(self.end, start=start, start_batch=this)
        return this, rows

    def begin_stream(self, spark: SparkSession, start: Start) -> None:
        """Write a new start, by a batch without effects. Only a stream over tables of a catalog is a new one."""
        before = self.end.metadata
        this = self.end.last.next
        metadata = BatchMetadata(-1 if start.tables else before.stream, state=before.state)
        self.append(LocalRows.none(spark), this, metadata, start)
        self.end = replace(self.end, last=this, metadata=metadata, start=start, start_batch=this)

    def append(self, effects: Rows, batch: BatchId, metadata: BatchMetadata, start: Start | None = None) -> Rows:
        """Append a batch, with ``start`` if a stream begins with it, and return its rows.

        Delta skips a second append of a batch. Rows on the driver are returned as given; those in Spark are read from
        the log, so that Spark does not compute them again.
        """
        spark, about = effects.spark, {"memo": [metadata.to_json()]}
        if start is not None:
            about["start"] = [start.to_json()]
        ours = _of_batch(effects, batch)
        everything = _of_batch(union_all([effects, LocalRows(spark, pa.table(about))]), batch)
        self.delta.append(spark, everything.frame, self.table, batch.transaction("log"))
        return ours if isinstance(ours, LocalRows) else self.batch(spark, batch)

    def batch(self, spark: SparkSession, batch: BatchId) -> Rows:
        """The effects of a batch, in Spark."""
        scan = self._scan(spark, batch.before, batch)
        return SparkRows(scan.df, scan=scan)

    def unfolded(self, spark: SparkSession, after: BatchId, upto: BatchId) -> Rows:
        """The effects of the batches of a checkpoint after ``after``, up to and with ``upto``.

        On the driver if they are those of a small batch, and no Spark job is needed.
        """
        scan, most = self._scan(spark, after, upto), self.delta.limits.small_batch
        if scan.reads_files:
            columns = self.delta.columns(spark, self.table)
            found = scan.rows([column.name for column in columns], most.rows + 1)
            if most.fits(found):
                return LocalRows(spark, found.cast(arrow_schema(", ".join(map(str, columns)))), scan)
        return SparkRows(scan.df, scan=scan)

    def _scan(self, spark: SparkSession, after: BatchId, upto: BatchId) -> Scan:
        return self.delta.scan(spark, self.table).where(
            "checkpoint = {checkpoint} AND batch BETWEEN {first} AND {last} AND memo IS NULL",
            checkpoint=upto.checkpoint,
            first=after.number + 1,
            last=upto.number,
        )

    def read_end(self, spark: SparkSession, folded: Mapping[str, int]) -> list[tuple[BatchId, BatchMetadata]]:
        """Read where the log ends; return the unfolded batches. ``folded`` is the last folded batch by checkpoint.

        An announced batch that was not committed is not unfolded, and ``end.metadata`` is of the batch before it.
        """
        (unfolded,) = read_ends(spark, [(self, folded)])
        return unfolded

    def _take_end(
        self, spark: SparkSession, rows: Sequence[Mapping[str, Any]], folded: Mapping[str, int]
    ) -> list[tuple[BatchId, BatchMetadata]]:
        found = {BatchId(row["checkpoint"], row["batch"]): row for row in rows}
        if not found:
            self.end = LogEnd(newest_checkpoint=max(folded, default=""))
            return []
        metadata_of = {batch: BatchMetadata.from_json(row["memo"]) for batch, row in found.items()}
        starts = {batch for batch, row in found.items() if row["start"] is not None}
        unfolded = sorted(batch for batch in found if not _is_folded(batch, folded))
        unfolded = [batch for batch in unfolded if batch not in starts or metadata_of[batch].needs_fold]
        never = {batch for batch in unfolded if self._never_came(spark, batch, metadata_of[batch])}
        start_batch = max(starts)
        mine = [batch for batch in found if batch.checkpoint == start_batch.checkpoint]
        metadata = metadata_of[max(batch for batch in mine if batch not in never)]
        start = Start.from_json(found[start_batch]["start"])
        self.end = LogEnd(max(mine), metadata, start, start_batch, max([start_batch.checkpoint, *folded]))
        return [(batch, metadata_of[batch]) for batch in unfolded if batch not in never]

    def _never_came(self, spark: SparkSession, batch: BatchId, metadata: BatchMetadata) -> bool:
        return metadata.direct is not None and announced_records(self.delta, spark, metadata.direct, batch) is None


def read_ends(
    spark: SparkSession, logs: Sequence[tuple[Log, Mapping[str, int]]]
) -> list[list[tuple[BatchId, BatchMetadata]]]:
    """``Log.read_end`` of some logs of the same tables, by one statement, and another for those without a late start.

    Over tables of a catalog the newest start is late: each run writes one after its last batch. In a folder a start may
    be as old as its checkpoint.
    """
    if not logs:
        return []
    delta = logs[0][0].delta
    ends = delta.query_each(spark, {log.table: _late(folded) for log, folded in logs})
    older = [log.table for log, folded in logs if not _has_newest_start(ends[log.table], folded)]
    if older:
        for table, rows in delta.query_each(spark, dict.fromkeys(older, _ENDS + NEWEST_START)).items():
            ends[table] += rows
    return [log._take_end(spark, ends[log.table], folded) for log, folded in logs]  # noqa: SLF001  of this module


def _late(folded: Mapping[str, int]) -> str:
    """The SELECT of the rows with metadata of the unfolded batches and of the last folded one of each checkpoint.

    Delta skips the files of older batches.
    """
    late = [f"(checkpoint <> '{checkpoint}' OR batch >= {number})" for checkpoint, number in folded.items()]
    return f"{_ENDS}({' AND '.join(late) or 'true'})"


def _has_newest_start(late: Sequence[Mapping[str, Any]], folded: Mapping[str, int]) -> bool:
    """Whether the newest start is among the late rows: other rows are of folded batches, before the last ones."""
    starts = [str(row["checkpoint"]) for row in late if row["start"] is not None]
    return max(starts, default="") >= max([*folded, *(str(row["checkpoint"]) for row in late)], default="")


def _is_folded(batch: BatchId, folded: Mapping[str, int]) -> bool:
    return batch.number <= folded.get(batch.checkpoint, FIRST - 1)


def _of_batch(rows: Rows, batch: BatchId) -> Rows:
    return rows.with_columns(checkpoint=text(batch.checkpoint), batch=nw.lit(batch.number, nw.Int64))

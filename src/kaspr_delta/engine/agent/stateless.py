"""The stateless way: an agent without tables processes a batch in parallel, in order within an input partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from kaspr_delta.engine.agent.by_column import ByColumn, is_by_column
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.rows.sequence import first_seq
from kaspr_delta.engine.streams.effect import (
    RECORD_COLUMNS,
    WORKERS_COLUMNS,
    for_spark,
    from_workers,
    records_for_spark,
    records_from_workers,
    to_arrow,
)
from kaspr_delta.engine.streams.input_rows import ONLY_VALUES, for_workers, in_partition_order, records_of
from kaspr_delta.engine.streams.offset_range import Numbering, OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class RunAgent:
    """Turns Arrow batches of input records into Arrow batches of effects."""

    executor: Executor

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The effects of the records, batch by batch."""
        context = TaskContext.get()
        # Each task numbers its effects from its own start, so that order inside a task is order by `seq`.
        seq = first_seq(context.partitionId() if context is not None else 0)
        by_column = ByColumn.of(self.executor)
        for batch in batches:
            for effects in self._one_by_one(batch, seq) if by_column is None else by_column.effects(batch, seq):
                yield effects
                seq += effects.num_rows

    def effects(self, records: DataFrame) -> DataFrame:
        """The effects of rows of InputRecord, made by Spark's Python workers."""
        return from_workers(self._in_order(records).mapInArrow(self._effects, WORKERS_COLUMNS))

    def sends(self, records: DataFrame, ranges: Collection[OffsetRange]) -> DataFrame:
        """The records that the rows become, for an agent that sends to one topic only.

        Computing them fails if an event fails. ``ranges`` describe all of the rows.
        """
        quick = is_by_column(self.executor)
        numbering = Numbering.of(ranges, len(self.executor.plan.outputs)) if quick else None
        if numbering is None:
            return records_from_workers(self._in_order(records).mapInArrow(self._sends, RECORD_COLUMNS))
        # Records that get their numbers by offset need no sorting.
        given = records.select(*ONLY_VALUES, "offset")
        return records_from_workers(given.mapInArrow(partial(self._numbered_sends, numbering), RECORD_COLUMNS))

    def _in_order(self, records: DataFrame) -> DataFrame:
        return for_workers(in_partition_order(records), only_values=is_by_column(self.executor))

    def _effects(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(for_spark, self(batches))

    def _sends(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(records_for_spark, self(batches))

    def _numbered_sends(self, numbering: Numbering, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        by_column = ByColumn.of(self.executor)
        if by_column is None:
            msg = "only the vectorised path numbers sends by the positions of their records"
            raise TypeError(msg)
        for batch in batches:
            yield from map(records_for_spark, by_column.sends(batch, numbering.numbers(batch.column("offset"))))

    def _one_by_one(self, batch: pa.RecordBatch, seq: int) -> Iterator[pa.RecordBatch]:
        yield to_arrow((effect for record in records_of(batch) for effect in self.executor.process(record)), seq)

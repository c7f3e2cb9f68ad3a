"""The stateless way: an agent without tables, its batches in parallel, order kept inside a partition of its input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from kaspr_delta.engine.agent.by_column import ByColumn
from kaspr_delta.engine.agent.effect import for_spark, records_for_spark, to_arrow
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.input_rows import records_of
from kaspr_delta.engine.sequence import first_seq


@dataclass(frozen=True, slots=True)
class RunAgent:
    """Arrow batches of input records to Arrow batches of effects."""

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

    def in_workers(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same as Spark's workers hand it on."""
        return map(for_spark, self(batches))

    def records_in_workers(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same for records of one topic, without anything else: an event that fails ends it."""
        return map(records_for_spark, self(batches))

    def _one_by_one(self, batch: pa.RecordBatch, seq: int) -> Iterator[pa.RecordBatch]:
        yield to_arrow((effect for record in records_of(batch) for effect in self.executor.process(record)), seq)

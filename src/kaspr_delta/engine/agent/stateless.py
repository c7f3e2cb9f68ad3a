"""The stateless way: an agent without tables processes a batch in parallel, in order within an input partition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyspark import TaskContext

from kaspr_delta.engine.agent.by_column import ByColumn, is_by_column, quickest
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.rows.sequence import first_seq
from kaspr_delta.engine.streams.effect import (
    RECORD_COLUMNS,
    WORKERS_COLUMNS,
    for_spark,
    from_workers,
    records_for_spark,
    records_from_workers,
)
from kaspr_delta.engine.streams.input_rows import ONLY_VALUES, for_workers, in_partition_order
from kaspr_delta.engine.streams.offset_range import Numbering, OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Conversion: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]


def run(executor: Executor, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn Arrow batches of input records into Arrow batches of effects."""
    context = TaskContext.get()
    # Each task numbers its effects from its own start, so that order inside a task is order by `seq`.
    seq = first_seq(context.partitionId() if context is not None else 0)
    way = quickest(executor)
    for batch in batches:
        for effects in way.effects(batch, seq):
            yield effects
            seq += effects.num_rows


def effects_of(executor: Executor, records: DataFrame) -> DataFrame:
    """The effects of rows of InputRecord, made by Spark's Python workers."""
    return from_workers(_in_workers(executor, records, for_spark, WORKERS_COLUMNS))


def sent_records(executor: Executor, records: DataFrame, ranges: Collection[OffsetRange]) -> DataFrame:
    """The records that the rows become, for an agent that sends to one topic only, made by Spark's Python workers.

    Computing them fails if an event fails. ``ranges`` describe all of the rows.
    """
    quick = is_by_column(executor)
    numbering = Numbering.of(ranges, len(executor.plan.outputs)) if quick else None
    if numbering is None:
        return records_from_workers(_in_workers(executor, records, records_for_spark, RECORD_COLUMNS))
    # Records that get their numbers by offset need no sorting.
    given = records.select(*ONLY_VALUES, "offset")
    return records_from_workers(given.mapInArrow(partial(_numbered_sends, executor, numbering), RECORD_COLUMNS))


def _in_workers(executor: Executor, records: DataFrame, convert: _Conversion, columns: str) -> DataFrame:
    in_order = for_workers(in_partition_order(records), only_values=is_by_column(executor))
    return in_order.mapInArrow(partial(_converted, executor, convert), columns)


def _converted(executor: Executor, convert: _Conversion, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return map(convert, run(executor, batches))


def _numbered_sends(
    executor: Executor, numbering: Numbering, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    by_column = ByColumn(executor)
    for batch in batches:
        yield from map(records_for_spark, by_column.sends(batch, numbering.numbers(batch.column("offset"))))

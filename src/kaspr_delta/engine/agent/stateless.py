"""The stateless way: an agent without tables processes a batch in parallel, in order within an input partition.

Records go to the Python workers, and effects come back, in a form of few columns without nesting.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kaspr_delta.engine.agent.by_column import ByColumn, is_by_column, quickest
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.rows.sequence import MOST_TASKS, first_seq
from kaspr_delta.engine.streams.effect import RECORD, EventFailedError
from kaspr_delta.engine.streams.offset_range import Numbering, OffsetRange
from kaspr_delta.storage.layout import HEADERS, PROBLEM

ONLY_VALUES = ("source", "key", "value", "timestamp")
"""The columns of every Arrow batch of input records. Others may be left out if no function can ask for them."""

# The columns of sends to one topic on their way out of Python workers (see ``records_for_spark``).
RECORD_COLUMNS = "key BINARY, value BINARY, timestamp TIMESTAMP, partition INT, seq BIGINT, about STRING"

# The columns of all effects on that way (see ``for_spark``).
WORKERS_COLUMNS = f"kind STRING, target STRING, {RECORD_COLUMNS}"

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


def for_workers(records: DataFrame, *, only_values: bool) -> DataFrame:
    """Return records for their way to Python workers: headers as JSON text, with their values as base64.

    On that way arrays of structs cost more than all other columns together, even if they are empty, and every column
    costs. With ``only_values``, only the columns ONLY_VALUES are returned.
    """
    if only_values:
        return records.select(*ONLY_VALUES)
    return records.drop("arrived").withColumn("headers", F.to_json("headers", {"ignoreNullFields": "false"}))


def in_partition_order(records: DataFrame) -> DataFrame:
    """Repartition records by source and partition, and sort each partition in the order of its offsets."""
    return records.repartition("source", "partition").coalesce(MOST_TASKS).sortWithinPartitions("offset")


def for_spark(effects: pa.RecordBatch) -> pa.RecordBatch:
    """Return effects as WORKERS_COLUMNS, for their way out of Python workers.

    Every column costs, and nested ones most. So headers, which only sends have, and problems, which only dead letters
    have, share a column: JSON text, with bytes as base64. Agents that run in workers have no windows.
    """
    nested = [effects.column(name) for name in ("headers", "problem")]
    if all(column.null_count == len(column) for column in nested):
        about = pa.nulls(effects.num_rows, pa.string())
    else:
        pairs = zip(*(column.to_pylist() for column in nested), strict=True)
        texts = (headers if problem is None else problem for headers, problem in pairs)
        about = pa.array([None if value is None else _text(value) for value in texts], pa.string())
    plain = effects.select(["kind", "target", "key", "value", "timestamp", "partition", "seq"])
    return plain.append_column("about", about)


def records_for_spark(effects: pa.RecordBatch) -> pa.RecordBatch:
    """Return sends to one topic as RECORD_COLUMNS, for their way out. Raises EventFailedError for other effects."""
    if pc.any(pc.not_equal(effects.column("kind"), "send")).as_py():
        raise EventFailedError
    return for_spark(effects).drop_columns(["kind", "target"])


def records_from_workers(rows: DataFrame) -> DataFrame:
    """Return the result of ``records_for_spark`` as records of a topic."""
    return rows.withColumn("headers", F.from_json("about", HEADERS)).select(*RECORD)


def from_workers(rows: DataFrame) -> DataFrame:
    """Return the result of ``for_spark`` as effects of the log."""
    sent = F.col("kind") == "send"
    nested = {
        "headers": F.when(sent, F.from_json("about", HEADERS)),
        "problem": F.when(~sent, F.from_json("about", PROBLEM)),
    }
    return rows.withColumns(nested).drop("about")


def _text(value: Any) -> str:
    return json.dumps(value, default=lambda data: base64.b64encode(data).decode())

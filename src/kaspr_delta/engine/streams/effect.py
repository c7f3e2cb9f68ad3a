"""Effects of an agent: sends, table writes and dead letters. They are the rows of its log."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import EFFECT, HEADERS, PROBLEM, TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = arrow_schema(EFFECT)

# The columns of sends to one topic on their way out of Python workers (see ``records_for_spark``).
RECORD_COLUMNS = "key BINARY, value BINARY, timestamp TIMESTAMP, partition INT, seq BIGINT, about STRING"

# The columns of all effects on that way (see ``for_spark``).
WORKERS_COLUMNS = f"kind STRING, target STRING, {RECORD_COLUMNS}"

# The columns that make a send a record of its topic.
RECORD = tuple(column.name for column in columns_of(TOPIC.columns))


class EventFailedError(Exception):
    """An event failed where only records can be handed on."""


class Effect(NamedTuple):
    """One effect, in the order of the log's columns without ``seq``, its number. Times are in microseconds."""

    kind: str
    target: str
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, Any]] | None = None
    timestamp: int | None = None
    partition: int | None = None
    problem: dict[str, str | None] | None = None
    window_start: int | None = None
    stream: str | None = None


def to_rows(spark: SparkSession, effects: Iterable[Effect]) -> Rows:
    """Return effects as rows on the driver."""
    return LocalRows(spark, pa.Table.from_batches([to_arrow(effects)], SCHEMA))


def to_arrow(effects: Iterable[Effect], seq: int | Sequence[int] = 0) -> pa.RecordBatch:
    """Return effects as rows of SCHEMA, with these numbers or numbered from ``seq``."""
    rows = list(effects)
    columns = dict(zip(Effect._fields, zip(*rows, strict=True), strict=True)) if rows else {}
    return columns_to_arrow(columns, range(seq, seq + len(rows)) if isinstance(seq, int) else seq)


def columns_to_arrow(columns: Mapping[str, Any], seq: Sequence[int] | pa.Array) -> pa.RecordBatch:
    """Return effects, given as columns, with these numbers as rows of SCHEMA. Missing columns are NULL."""
    given = {**columns, "seq": seq}

    def column(of: pa.Field) -> pa.Array:
        values = given.get(of.name)
        if values is None:
            return pa.nulls(len(seq), of.type)
        return values.cast(of.type) if isinstance(values, pa.Array) else pa.array(values, of.type)

    return pa.RecordBatch.from_arrays([column(of) for of in SCHEMA], schema=SCHEMA)


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
    from pyspark.sql import functions as F

    return rows.withColumn("headers", F.from_json("about", HEADERS)).select(*RECORD)


def from_workers(rows: DataFrame) -> DataFrame:
    """Return the result of ``for_spark`` as effects of the log."""
    from pyspark.sql import functions as F

    sent = F.col("kind") == "send"
    nested = {
        "headers": F.when(sent, F.from_json("about", HEADERS)),
        "problem": F.when(~sent, F.from_json("about", PROBLEM)),
    }
    return rows.withColumns(nested).drop("about")


def _text(value: Any) -> str:
    return json.dumps(value, default=lambda data: base64.b64encode(data).decode())

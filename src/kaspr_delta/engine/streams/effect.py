"""Effects of an agent, the rows of its log: sends, table writes, dead letters, and windows that close or expire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import EFFECT, TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.engine.rows.rows import Rows

SCHEMA = arrow_schema(EFFECT)

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
    from kaspr_delta.engine.rows.local_rows import LocalRows  # who only makes records needs no rows

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

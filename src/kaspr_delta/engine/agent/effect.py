"""What an agent does to the world: sends, table writes, dead letters. Rows of its log."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from kaspr_delta.engine.dead_letters import ARROW_PROBLEM
from kaspr_delta.engine.rows import Rows
from kaspr_delta.storage.layout import BATCH, EFFECTS, HEADERS, PROBLEM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("target", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("partition", pa.int32()),
        ("seq", pa.int64()),
        ("problem", ARROW_PROBLEM),
        ("window_start", pa.timestamp("us", "UTC")),
        ("stream", pa.string()),
    ]
)

# The same on the way out of Python workers (see ``as_text``).
WORKERS_COLUMNS = EFFECTS.columns.removesuffix(f", {BATCH}").replace(HEADERS, "STRING").replace(PROBLEM, "STRING")

# The columns that make a send a record of its topic.
RECORD = ("key", "value", "headers", "timestamp", "partition", "seq")


class Effect(NamedTuple):
    """One effect, in the order of the log's columns but for ``seq``, which is its place. Times are in microseconds."""

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
    """Effects as rows on the driver."""
    return Rows.held(spark, pa.Table.from_batches([to_arrow(effects)], SCHEMA))


def to_arrow(effects: Iterable[Effect], first_seq: int = 0) -> pa.RecordBatch:
    """Effects as rows of SCHEMA, numbered from ``first_seq``."""
    rows = list(effects)
    columns = dict(zip(Effect._fields, zip(*rows, strict=True), strict=True)) if rows else {}
    return columns_to_arrow(columns, len(rows), first_seq)


def columns_to_arrow(columns: Mapping[str, Any], count: int, first_seq: int) -> pa.RecordBatch:
    """So many effects as rows of SCHEMA, column by column; those that are not given are empty."""
    given = {**columns, "seq": range(first_seq, first_seq + count)}

    def column(of: pa.Field) -> pa.Array:
        values = given.get(of.name)
        if values is None:
            return pa.nulls(count, of.type)
        return values.cast(of.type) if isinstance(values, pa.Array) else pa.array(values, of.type)

    return pa.RecordBatch.from_arrays([column(of) for of in SCHEMA], schema=SCHEMA)


def as_text(effects: pa.RecordBatch) -> pa.RecordBatch:
    """Effects on their way out of Python workers: headers and problems as JSON text, bytes in it as base64.

    Arrays and structs cost Spark more on that way than all other columns together, also where they are empty.
    """
    for place, of in enumerate(SCHEMA):
        if pa.types.is_nested(of.type):
            column = effects.column(place)
            texts = pa.nulls(len(column), pa.string())
            if column.null_count < len(column):
                texts = pa.array([None if value is None else _text(value) for value in column.to_pylist()], pa.string())
            effects = effects.set_column(place, of.name, texts)
    return effects


def from_workers(rows: DataFrame) -> DataFrame:
    """Effects as they are in the log, from what ``as_text`` made of them."""
    from pyspark.sql import functions as F

    return rows.withColumns({"headers": F.from_json("headers", HEADERS), "problem": F.from_json("problem", PROBLEM)})


def _text(value: Any) -> str:
    return json.dumps(value, default=lambda data: base64.b64encode(data).decode())

"""Input records as rows: in the form for Python workers, and one by one."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.sequence import MOST_TASKS
from kaspr_delta.engine.streams.event import InputRecord

ONLY_VALUES = ("source", "key", "value", "timestamp")
"""The columns of every Arrow batch of input records. Others may be left out if no function can ask for them."""


def records_of(rows: pa.RecordBatch | pa.Table) -> Iterator[InputRecord]:
    """Yield rows one by one, as InputRecord. Headers may be text or left out (see ``for_workers``)."""
    columns = [_column(rows, name) for name in InputRecord._fields]
    return map(InputRecord._make, zip(*columns, strict=True))


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


def _column(rows: pa.RecordBatch | pa.Table, name: str) -> Iterable[Any]:
    """A field of all records. Shortcuts: most columns of text and headers have only one value."""
    if name not in rows.schema.names:
        return repeat(None, rows.num_rows)
    column = rows.column(name)
    if column.null_count == len(column):
        return repeat(None, len(column))
    if name == "headers" and pa.types.is_string(column.type):
        return (None if text is None else list(map(_header, json.loads(text))) for text in column.to_pylist())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    elif pa.types.is_string(column.type) and len(found := column.unique()) == 1:
        return repeat(found[0].as_py(), len(column))
    values: list[Any] = column.to_pylist()
    return values


def _header(encoded: dict[str, str | None]) -> dict[str, Any]:
    value = encoded["value"]
    return {"key": encoded["key"], "value": None if value is None else base64.b64decode(value)}

"""Rows of Parquet files and of Arrow tables, whichever program wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.types as pt

from kaspr_delta.errors import UsageError
from kaspr_delta.serde.files.rows import FileRow

EXACT = {b"kaspr_delta.exact": b"true"}
"""The metadata of a Parquet file of ``export``."""
# The column in which pandas keeps an index that has no name.
_INDEX = "__index_level_"


def parquet_table(source: BinaryIO | str, name: str) -> pa.Table:
    """The rows of a Parquet file, or of a folder of them. Raises UsageError for a file that is no Parquet file."""
    from pyarrow.parquet import read_table

    try:
        return read_table(source)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f"{name} cannot be read as Parquet: {error}") from error


def arrow_rows(table: pa.Table, name: str) -> Iterator[FileRow]:
    """The rows of a table. Maps are dictionaries, categories are their values, and times have microseconds.

    The index of a pandas DataFrame is left out if it only numbers the rows. Raises UsageError for a column whose
    values Python or Spark cannot hold, such as times with nanoseconds.
    """
    columns = {field.name: _plain(table[number], field, name) for number, field in enumerate(table.schema)}
    columns = {one: column for one, column in columns.items() if not _numbers_rows(one, column.type)}
    exact = EXACT.items() <= (table.schema.metadata or {}).items()
    number = 0
    for batch in pa.table(columns).to_batches(max_chunksize=10_000):
        values = [_values(batch.column(n)) for n in range(batch.num_columns)]
        for row in zip(*values, strict=True):
            number += 1
            yield FileRow(f"{name}, row {number}", dict(zip(batch.schema.names, row, strict=True)), exact=exact)


def _numbers_rows(name: str, kind: pa.DataType) -> bool:
    return name.startswith(_INDEX) and pt.is_integer(kind)


def _plain(column: pa.ChunkedArray, field: pa.Field, name: str) -> pa.ChunkedArray:
    wanted = _plain_type(field.type)
    if wanted is None:
        raise UsageError(f"{name}: column {field.name} is {field.type}, which no table here holds: write it as text")
    try:
        return column if wanted == field.type else column.cast(wanted)
    except pa.ArrowInvalid:
        fix = "round them, in pandas with .dt.round('us')"
        raise UsageError(f"{name}: column {field.name} has nanoseconds, and tables have microseconds: {fix}") from None
    except pa.ArrowNotImplementedError as error:
        raise UsageError(f"{name}: column {field.name} ({field.type}) cannot be read: {error}") from error


def _plain_type(kind: pa.DataType) -> pa.DataType | None:  # noqa: PLR0911  one a kind of types
    """The type without categories, nanoseconds and views; None for a type whose values tables cannot hold."""
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if pt.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pt.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pt.is_time(kind):
        return pa.time64("us")
    if pt.is_duration(kind) or pt.is_interval(kind) or pt.is_union(kind):
        return None
    if pt.is_map(kind):
        key, item = _plain_type(kind.key_type), _plain_type(kind.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pt.is_struct(kind):
        fields = [(field.name, _plain_type(field.type)) for field in kind]
        return None if any(one is None for _, one in fields) else pa.struct(fields)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        item = _plain_type(kind.value_type)
        return None if item is None else pa.list_(item)
    if pt.is_string_view(kind):
        return pa.string()
    return pa.binary() if pt.is_binary_view(kind) else kind


def _values(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return [_with_maps(value, column.type) for value in values] if _has_map(column.type) else values


def _has_map(kind: pa.DataType) -> bool:
    return pt.is_map(kind) or any(_has_map(kind.field(n).type) for n in range(kind.num_fields))


def _with_maps(value: Any, kind: pa.DataType) -> Any:
    """A value of Arrow with maps, which Arrow gives as lists of pairs, as dictionaries."""
    if value is None or not _has_map(kind):
        return value
    if pt.is_map(kind):
        return {key: _with_maps(item, kind.item_type) for key, item in value}
    if pt.is_struct(kind):
        return {field.name: _with_maps(value[field.name], field.type) for field in kind}
    return [_with_maps(item, kind.value_type) for item in value]

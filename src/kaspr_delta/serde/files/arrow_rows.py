"""Rows of Parquet files and of Arrow tables, whichever program wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.types as pt

from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.serde.files.rows import ColumnsCheck, FileRow, any_columns

EXACT = {b"kaspr_delta.exact": b"true"}
"""The metadata of a Parquet file of ``export``."""
# The column in which pandas keeps an index that has no name.
_INDEX = "__index_level_"
_EXTENSION = b"ARROW:extension:name"


def parquet_table(file: BinaryIO | str, name: str) -> pa.Table:
    """The rows of a Parquet file. Raises UsageError for a file that is none."""
    from pyarrow.parquet import ParquetFile

    # Spark writes INT96, whose years are those of microseconds, not those of nanoseconds as Arrow takes them.
    unit = "us"
    with _as_parquet(name):
        return ParquetFile(file, coerce_int96_timestamp_unit=unit).read()


def names_in(file: str) -> list[str]:
    """The columns of a Parquet file. Raises UsageError for a file that is none."""
    from pyarrow.parquet import read_schema

    with _as_parquet(file):
        return [one.name for one in read_schema(file) if not _numbers_rows(one.name, one.type)]


@contextmanager
def _as_parquet(name: str) -> Iterator[None]:
    """Raise UsageError if a file is no Parquet file."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f"{name} cannot be read as Parquet: {error}") from error


def arrow_rows(table: pa.Table, name: str, check: ColumnsCheck = any_columns) -> Iterator[FileRow]:
    """The rows of a table. Maps are dictionaries, categories are their values, and times have microseconds.

    The index of a pandas DataFrame is left out if it only numbers the rows. Raises UsageError for a column whose
    values Python or Spark cannot hold, such as times with nanoseconds.
    """
    if twice := [one for one in table.schema.names if table.schema.names.count(one) > 1]:
        raise UsageError(f"{name}: two columns are called {twice[0]}: give each a name of its own")
    columns = {field.name: _plain(table[number], field, name) for number, field in enumerate(table.schema)}
    columns = {one: column for one, column in columns.items() if not _numbers_rows(one, column.type)}
    check(list(columns))
    exact = EXACT.items() <= (table.schema.metadata or {}).items()
    number = 0
    for batch in pa.table(columns).to_batches(max_chunksize=10_000):
        values = [_values(batch.column(n), one, name) for n, one in enumerate(columns)]
        special = {one: column.type for one, column in columns.items() if _is_special(column.type)}
        for row in zip(*values, strict=True):
            number += 1
            cells, problem = dict(zip(columns, row, strict=True)), None
            for one, kind in special.items():
                try:
                    cells[one] = _of_special(cells[one], kind)
                except SerializationError as error:
                    problem = f"column {one}: {error}"
            yield FileRow(f"{name}, row {number}", None if problem else cells, problem=problem, exact=exact)


def _numbers_rows(name: str, kind: pa.DataType) -> bool:
    return name.startswith(_INDEX) and pt.is_integer(kind)


def _plain(column: pa.ChunkedArray, field: pa.Field, name: str) -> pa.ChunkedArray:
    kind = field.type
    # The name of an extension is with the field if the library that knows it, such as pandas, is not loaded.
    extension = getattr(kind, "extension_name", (field.metadata or {}).get(_EXTENSION, b"").decode())
    wanted = None if extension.startswith("pandas.") else _plain_type(kind)
    if wanted is None:
        raise UsageError(
            f"{name}: column {field.name} is {extension or kind}, which no table here holds: write it as text"
        )
    try:
        return column if wanted == kind else column.cast(wanted)
    except pa.ArrowInvalid as error:
        if "lose data" not in str(error):
            raise _out_of_range(field.name, name) from None
        fix = "round them, in pandas with .dt.round('us')"
        raise UsageError(f"{name}: column {field.name} has nanoseconds, and tables have microseconds: {fix}") from None
    except pa.ArrowNotImplementedError as error:
        raise UsageError(f"{name}: column {field.name} ({kind}) cannot be read: {error}") from error


def _out_of_range(column: str, name: str) -> UsageError:
    return UsageError(f"{name}: column {column} has a date or a time that is not in the years 1 to 9999")


def _plain_type(kind: pa.DataType) -> pa.DataType | None:  # noqa: PLR0911  one a kind of types
    """The type without categories, nanoseconds and views; None for a type whose values tables cannot hold."""
    if isinstance(kind, pa.BaseExtensionType):
        of_name = {"arrow.uuid": kind, "arrow.bool8": pa.bool_()}
        return of_name.get(kind.extension_name) or _plain_type(kind.storage_type)
    if pt.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pt.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    if pt.is_time(kind):
        return pa.time64("us")
    if pt.is_duration(kind) or pt.is_interval(kind) or pt.is_union(kind):
        return None
    if pt.is_map(kind):
        key, item = _plain_type(kind.key_type), _plain_type(kind.item_type)
        return None if key is None or item is None or pt.is_nested(key) else pa.map_(key, item)
    if pt.is_struct(kind):
        fields = [(field.name, _plain_type(field.type)) for field in kind]
        twice = len(dict(fields)) < len(fields)
        return None if twice or any(one is None for _, one in fields) else pa.struct(fields)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        item = _plain_type(kind.value_type)
        return None if item is None else pa.list_(item)
    if pt.is_string_view(kind):
        return pa.string()
    return pa.binary() if pt.is_binary_view(kind) else kind


def _values(column: pa.Array, called: str, name: str) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:
        raise _out_of_range(called, name) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: column {called} has text that is not UTF-8: {error.object[:40]!r}") from None
    return values


def _is_special(kind: pa.DataType) -> bool:
    """Whether Python objects of Arrow are not those of functions, or hold such ones."""
    if isinstance(kind, pa.UuidType) or pt.is_map(kind):
        return True
    return any(_is_special(kind.field(n).type) for n in range(kind.num_fields))


def _of_special(value: Any, kind: pa.DataType) -> Any:
    """A value of Arrow with maps, which Arrow gives as lists of pairs, as dictionaries, and with UUIDs as text.

    Raises SerializationError for a map in which a key stands twice.
    """
    if value is None or not _is_special(kind):
        return value
    if isinstance(kind, pa.UuidType):
        return str(value)
    if pt.is_map(kind):
        found = {_of_special(key, kind.key_type): _of_special(item, kind.item_type) for key, item in value}
        if len(found) < len(value):
            raise SerializationError("a key stands twice in a map")
        return found
    if pt.is_struct(kind):
        return {field.name: _of_special(value[field.name], field.type) for field in kind}
    return [_of_special(item, kind.value_type) for item in value]

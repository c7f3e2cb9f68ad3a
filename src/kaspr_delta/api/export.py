"""Write the rows of a table or of a join's result to one CSV or Parquet file.

What is written of a table, ``load`` reads back equal.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

import pyarrow as pa
import pyarrow.types as pt

from kaspr_delta.errors import UsageError
from kaspr_delta.serde.files.arrow_rows import EXACT
from kaspr_delta.serde.files.read import format_named
from kaspr_delta.serde.files.untyped import BASE64_COLUMN, JSON_COLUMN, field_value
from kaspr_delta.serde.json_text import value_text
from kaspr_delta.serde.typed_values import column_text, plain_json
from kaspr_delta.spec.ddl import Column, Type

ExportFormat = Literal["csv", "parquet"]

_MISSING: Any = object()


def export_format(path: str, given: str | None) -> ExportFormat:
    """The format to write. Raises UsageError."""
    wanted = given or (format_named(path) if Path(path).suffix.lower() in {".csv", ".parquet", ".pq"} else None)
    if wanted not in get_args(ExportFormat):
        raise UsageError(f"{path}: expected a file name that ends in .csv or .parquet, or one of them as --format")
    return cast("ExportFormat", wanted)


def write_rows(rows: pa.Table, types: Mapping[str, Type], path: str, file_format: str | None) -> int:
    """Write results of a join, with the ``types`` of their columns in the table. Returns their number.

    Parquet keeps nested columns. In CSV lists and maps become JSON text and bytes base64; objects become columns such
    as ``left.price``, or JSON text if names of their fields have dots. Raises UsageError.
    """
    wanted = export_format(path, file_format)
    if wanted == "csv":
        flat = (column for name in rows.column_names for column in _flat(name, rows[name], types.get(name)))
        rows = pa.table(dict(flat))
    return _write(rows, path, wanted)


def write_columns(rows: pa.Table, types: Sequence[Column], path: str, file_format: str | None) -> int:
    """Write rows of a table with columns of its own. Returns their number. Raises UsageError.

    Parquet keeps nested columns. In CSV they become JSON text, and bytes base64.
    """
    wanted = export_format(path, file_format)
    for place, one in enumerate(types if wanted == "csv" else ()):
        values = rows[one.name].to_pylist()
        if one.type.name in {"STRUCT", "ARRAY", "MAP"}:
            texts = column_text(one.type, values)
        elif one.type.name == "BINARY":
            texts = [None if value is None else base64.b64encode(value).decode() for value in values]
        else:
            continue
        rows = rows.set_column(place, one.name, pa.array(texts, pa.string()))
    return _write(rows, path, wanted)


def write_pairs(pairs: list[tuple[Any, Any]], further: dict[str, pa.Array], path: str, file_format: str | None) -> int:
    """Write pairs of key and value of a table without columns, with further columns. Returns the number of rows.

    Fields of values become columns: ``value.price`` in CSV, a struct in Parquet. Cells that would be read back as
    another value, or that some rows do not have, stand as JSON text in a column whose name ends with ``:json``.
    """
    wanted = export_format(path, file_format)
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    if wanted == "csv":
        cells = dict([_csv_column("key", keys), *_csv_columns("value", values)])
        table = pa.table({name: pa.array(column) for name, column in cells.items()} | further)
    else:
        columns = dict([_parquet_column("key", keys), _parquet_column("value", values)])
        table = pa.table(columns | further).replace_schema_metadata(EXACT)
    return _write(table, path, wanted)


def _write(table: pa.Table, path: str, wanted: ExportFormat) -> int:
    target = Path(path)
    if target.exists() and not target.is_file():
        raise UsageError(f"{path} is no file: an export writes a new one, or replaces one")
    partial = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if wanted == "csv":
            from pyarrow.csv import write_csv

            write_csv(table, partial)
        else:
            from pyarrow.parquet import write_table

            write_table(table, partial)
        partial.replace(target)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}") from error
    return int(table.num_rows)


def _csv_columns(name: str, cells: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    fields = _fields(cells)
    if fields and not any("." in one for one in fields):
        for one in fields:
            yield from _csv_columns(f"{name}.{one}", [cell.get(one, _MISSING) for cell in cells])
    else:
        yield _csv_column(name, cells)


def _csv_column(name: str, cells: list[Any]) -> tuple[str, list[Any]]:
    if all(isinstance(cell, bytes) for cell in cells) and cells:
        return f"{name}{BASE64_COLUMN}", [base64.b64encode(cell).decode() for cell in cells]
    if all(_is_plain(cell) for cell in cells):
        return name, _as_written(cells)
    return f"{name}{JSON_COLUMN}", [None if cell is _MISSING else value_text(cell) for cell in cells]


def _as_written(cells: list[Any]) -> list[Any]:
    """Cells as they are if Arrow writes them as Python does, else as text."""
    texts = [cell if cell is None or isinstance(cell, str) else value_text(cell) for cell in cells]
    if {type(cell) for cell in cells if cell is not None} in ({int}, {float}, {bool}):
        with contextlib.suppress(pa.ArrowInvalid, OverflowError):  # a whole number that needs more than 64 bits
            return cells if pa.array(cells).cast(pa.string()).to_pylist() == texts else texts
    return texts


def _is_plain(cell: Any) -> bool:
    """Whether a field of CSV is read back as this cell."""
    if cell is None:
        return True
    if cell is _MISSING or isinstance(cell, dict | list | bytes):
        return False
    read = field_value(cell if isinstance(cell, str) else value_text(cell))
    return type(read) is type(cell) and value_text(read) == value_text(cell)


def _parquet_column(name: str, cells: list[Any]) -> tuple[str, pa.Array]:
    fields = _fields(cells)
    if fields:
        named = [_parquet_column(one, [cell.get(one, _MISSING) for cell in cells]) for one in fields]
        return name, pa.StructArray.from_arrays([array for _, array in named], [one for one, _ in named])
    kinds = {type(cell) for cell in cells if cell is not None}
    if len(kinds) <= 1 and kinds <= {str, int, float, bool, bytes}:
        try:
            return name, pa.array(cells, None if kinds else pa.string())
        except (pa.ArrowInvalid, OverflowError):  # a whole number that needs more than 64 bits
            pass
    return f"{name}{JSON_COLUMN}", pa.array(
        [None if one is _MISSING else value_text(one) for one in cells], pa.string()
    )


def _fields(cells: list[Any]) -> list[str]:
    """The names of the fields of objects; empty unless all cells are objects with fields, and names are not special."""
    if not cells or not all(isinstance(cell, dict) and cell for cell in cells):
        return []
    names = list(dict.fromkeys(name for cell in cells for name in cell))
    return [] if any(not name or name.endswith((JSON_COLUMN, BASE64_COLUMN)) for name in names) else names


def _flat(name: str, column: pa.ChunkedArray, of: Type | None) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """The columns of a CSV file for a column of rows, of this type in the table; None: inferred."""
    kind = column.type
    if pt.is_struct(kind) and kind.num_fields and not any("." in field.name for field in kind):
        types = {} if of is None else {field.name: field.type for field in of.fields}
        for field, inner in zip(kind, column.flatten(), strict=True):
            yield from _flat(f"{name}.{field.name}", inner, types.get(field.name))
    elif pt.is_nested(kind):
        cells = column.to_pylist()
        texts = [None if cell is None else value_text(plain_json(cell)) for cell in cells]
        yield name, pa.array(texts if of is None else column_text(of, cells), pa.string())
    elif pt.is_binary(kind) or pt.is_large_binary(kind):
        texts = [None if cell is None else base64.b64encode(cell).decode() for cell in column.to_pylist()]
        yield name, pa.array(texts, pa.string())
    else:
        yield name, column

"""Files of rows: loaded into a table, or exported from a table or a join's result."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from kaspr_delta.errors import UsageError
from kaspr_delta.serde.json_lines import objects_of
from kaspr_delta.serde.utf8 import UNREADABLE_KEPT, utf8_lines
from kaspr_delta.storage.spark.frames import collected

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

LoadFormat = Literal["json", "csv", "parquet", "delta"]
ExportFormat = Literal["csv", "parquet"]

_ENDINGS = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet"}
_WHOLE = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
_FRACTION = re.compile(r"-?(0|[1-9]\d*)\.\d+", re.ASCII)
_TRUTH = {"true": True, "false": False}

Pairs = list[tuple[Any, Any]]


def format_of(source: str, given: str | None) -> LoadFormat:
    """The format of a file: as given, or by its name or content. Raises UsageError for an unknown format."""
    path = Path(source)
    found = given or ("delta" if (path / "_delta_log").is_dir() else _ENDINGS.get(path.suffix.lower(), "json"))
    for known in get_args(LoadFormat):
        if found == known:
            return known  # type: ignore[no-any-return]  # get_args has no types
    msg = f"format {found!r}: expected {', '.join(get_args(LoadFormat))}"
    raise UsageError(msg)


def pairs_of_file(source: str, file_format: LoadFormat, key: Sequence[str] = ()) -> Pairs:
    """The rows of a file as pairs of key and value. Raises UsageError, with the location, for any other row.

    Without ``key``, a row has a key and a value. With ``key``, one column or several, a row's key is the value of that
    column (or the list of values), and its value is an object of all columns. A CSV column becomes numbers or truth
    values only if all its fields are unmistakably such; an empty field is null.
    """
    read = {"json": _objects, "csv": _csv_rows, "parquet": _parquet_rows}[file_format]
    try:
        return list(pairs_of(read(source), source, key))
    except (OSError, csv.Error, pa.ArrowException) as error:
        msg = f"{source} cannot be read: {error}"
        raise UsageError(msg) from error


def pairs_of(rows: Iterable[Mapping[str, Any]], source: str, key: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    """The rows as pairs, as in ``pairs_of_file``."""
    for number, row in enumerate(rows, start=1):
        needed = [name for name in (key or ("key", "value")) if name not in row]
        further = [] if key else sorted(set(row) - {"key", "value"})
        if needed and key:
            msg = f"{source}, row {number}: there is no column {needed[0]!r} (there are: {', '.join(row)})"
            raise UsageError(msg)
        if needed or further:
            msg = f"{source}, row {number}: expected an object with key and value, not one with {', '.join(row)[:80]}"
            raise UsageError(f"{msg}: say which column is the key (--key)")
        if key:
            parts = [row[name] for name in key]
            yield (parts[0] if len(parts) == 1 else parts), dict(row)
        else:
            yield row["key"], row["value"]


def write_file(rows: DataFrame, path: str, file_format: str | None = None) -> int:
    """Write rows to one CSV or Parquet file, which replaces an existing one. Returns the number of rows.

    Parquet keeps nested columns. In CSV, fields of objects become columns such as ``left.price``, lists become JSON
    text and bytes base64. In both, a column of several types (a VARIANT) becomes JSON text. Raises UsageError.
    """
    wanted = file_format or _ENDINGS.get(Path(path).suffix.lower())
    if wanted not in get_args(ExportFormat):
        msg = f"{path}: expected a file name that ends in .csv or .parquet, or one of them as --format"
        raise UsageError(msg)
    flat = wanted == "csv"
    table = collected(rows.select(*_columns(rows.schema, flat=flat)))
    target = Path(path)
    partial = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if flat:
            from pyarrow.csv import write_csv

            write_csv(table, partial)
        else:
            from pyarrow.parquet import write_table

            write_table(table, partial)
        partial.replace(target)
    except OSError as error:
        msg = f"{path} cannot be written: {error}"
        raise UsageError(msg) from error
    return int(table.num_rows)


def _objects(source: str) -> Iterator[dict[str, Any]]:
    with Path(source).open(encoding="utf-8", errors=UNREADABLE_KEPT) as lines:
        yield from objects_of(lines, source)


def _csv_rows(source: str) -> Iterator[dict[str, Any]]:
    with Path(source).open(encoding="utf-8-sig", errors=UNREADABLE_KEPT, newline="") as file:
        reader = csv.reader(utf8_lines(file, source), strict=True)
        names = next(reader, [])
        if len(set(names)) < len(names) or not all(names):
            msg = (
                f"{source}: its first line must name the columns, each by a name of its own, not {','.join(names)[:80]}"
            )
            raise UsageError(msg)
        rows: list[list[str]] = []
        for row in reader:
            if row and len(row) != len(names):
                msg = f"{source}:{reader.line_num}: expected {len(names)} fields, found {len(row)}"
                raise UsageError(msg)
            rows.extend([row] if row else [])
    columns = [_values(column) for column in zip(*rows, strict=True)]
    yield from (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _values(column: Sequence[str]) -> list[Any]:
    """The values of a CSV column. ``007`` stays text: as a number it would lose its zeros."""
    there = [text for text in column if text]
    read: Any = str
    if all(map(_WHOLE.fullmatch, there)):
        read = int
    elif all(_WHOLE.fullmatch(text) or _FRACTION.fullmatch(text) for text in there):
        read = float
    elif all(text in _TRUTH for text in there):
        read = _TRUTH.__getitem__
    return [read(text) if text else None for text in column]


def _parquet_rows(source: str) -> list[dict[str, Any]]:
    from pyarrow.parquet import read_table

    rows: list[dict[str, Any]] = read_table(source).to_pylist()
    return rows


def _columns(schema: StructType, *, flat: bool, above: str = "", name: str = "") -> Iterator[Column]:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    from kaspr_delta.engine.rows.value_functions import base64_of

    for field in schema.fields:
        column_path, called = f"{above}`{field.name.replace('`', '``')}`", f"{name}{field.name}"
        column = F.col(column_path)
        match field.dataType:
            case T.StructType() as inner if flat:
                yield from _columns(inner, flat=flat, above=f"{column_path}.", name=f"{called}.")
                continue
            case kind if not flat:
                column = _without_variants(column, kind)
            case T.VariantType():
                column = F.to_json(column)
            case T.ArrayType() | T.MapType():
                column = F.to_json(column)
            case T.BinaryType():
                column = base64_of(column)
        yield column.alias(called)


def _without_variants(column: Column, kind: DataType) -> Column:
    """A column for Parquet with every VARIANT, also in structs and arrays, as JSON text: Parquet would have bytes."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if "variant" not in kind.simpleString():
        return column
    match kind:
        case T.StructType():
            fields = (_without_variants(column[one.name], one.dataType).alias(one.name) for one in kind.fields)
            return F.when(column.isNotNull(), F.struct(*fields))
        case T.ArrayType():
            return F.transform(column, lambda item: _without_variants(item, kind.elementType))
        case T.VariantType():
            return F.to_json(column)
        case _:
            return column

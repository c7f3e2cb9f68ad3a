"""Load files that have the columns of a typed table. Spark reads, checks and writes them column by column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.api.row_files import LoadFormat
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.errors import UsageError
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.serde.utf8 import UNREADABLE_KEPT, utf8_lines
from kaspr_delta.spec.ddl import quoted

# Names of the counts, aggregated by Spark.
_BAD, _EMPTY, _ROWS, _KEYS = "bad_{}", "rows_without_key", "rows", "keys"


def load_columns(spark: SparkSession, table: KeyedTable, typed: TypedPlan, source: str, file_format: LoadFormat) -> int:
    """Write the rows of a CSV or Parquet file or of a Delta table. Returns the number of rows.

    Columns are found by name; columns that the file lacks are null. Raises UsageError, before anything is written, for
    a missing key column, for columns that the table does not have, for values that are not of the column's type, and
    for rows without a key or with the key of another row.
    """
    found = _rows(spark, table, source, file_format)
    names = [column.name for column in typed.columns]
    unknown, missing = set(found.columns) - set(names), set(typed.key) - set(found.columns)
    if unknown or missing:
        problem = f"no column {_listed(missing)}, of the key" if missing else f"columns of its own: {_listed(unknown)}"
        msg = f"{source} has {problem} (the columns of {table.plan.name} are {', '.join(names)})"
        raise UsageError(msg)
    wanted = [column for column in typed.columns if column.name in found.columns]
    rows = found.select(*(F.col(quoted(one.name)).try_cast(str(one.type)).alias(one.name) for one in wanted))
    bad = [
        F.count_if(F.col(quoted(one.name)).isNotNull() & F.col(quoted(one.name)).try_cast(str(one.type)).isNull())
        for one in wanted
    ]
    counted = found.agg(*(count.alias(_BAD.format(one.name)) for count, one in zip(bad, wanted, strict=True))).first()
    for one in wanted:
        if counted is not None and counted[_BAD.format(one.name)]:
            msg = f"{source}: column {one.name} has {counted[_BAD.format(one.name)]} values that are not {one.type}"
            raise UsageError(msg)
    total = _count(rows, source, typed.key)
    table.put_rows(rows)
    return total


def _rows(spark: SparkSession, table: KeyedTable, source: str, file_format: LoadFormat) -> DataFrame:
    path = str(Path(source).absolute()) if Path(source).exists() else source
    if file_format == "delta":
        return table.delta.read_elsewhere(spark, path)
    if not Path(source).exists() and "://" not in source:
        msg = f"{source} cannot be read: there is no such file"
        raise UsageError(msg)
    if file_format == "csv":
        _check_utf8(Path(source))
        return spark.read.option("header", "true").csv(path)
    return spark.read.parquet(path)


def _check_utf8(file: Path) -> None:
    """Raise UsageError for a file of this machine that is not UTF-8: Spark would replace the invalid bytes."""
    if file.is_file():
        with file.open(encoding="utf-8", errors=UNREADABLE_KEPT, newline="") as lines:
            for _ in utf8_lines(lines, str(file)):
                pass


def _count(rows: DataFrame, source: str, key: Sequence[str]) -> int:
    columns = [F.col(quoted(name)) for name in key]
    without = F.count_if(F.greatest(*(column.isNull() for column in columns), F.lit(False)))
    row = rows.agg(F.count("*").alias(_ROWS), F.count_distinct(*columns).alias(_KEYS), without.alias(_EMPTY)).first()
    total, keys, empty = (row[_ROWS], row[_KEYS], row[_EMPTY]) if row is not None else (0, 0, 0)
    if empty or keys < total:
        problem = f"{empty} rows have no key" if empty else f"{total - keys} rows have the key of another one"
        msg = f"{source}: {problem} ({', '.join(key)})"
        raise UsageError(msg)
    return int(total)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))

"""Load the rows of a Delta table into a typed table: Spark reads, checks and writes them column by column."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kaspr_delta.api.load import LoadOptions, wanted_columns
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.errors import UsageError
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.spec.ddl import Column as TableColumn
from kaspr_delta.spec.ddl import Type, columns_of_json, quoted

# Names of the counts, aggregated by Spark.
_BAD, _EMPTY, _ROWS, _KEYS = "bad_{}", "rows_without_key", "rows", "keys"
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
# The types whose values a type also holds, each exactly, if it holds this value at all.
_TAKES = {
    **dict.fromkeys(_WHOLE, (*_WHOLE, "DECIMAL", "FLOAT", "DOUBLE")),
    "DECIMAL": (*_WHOLE, "DECIMAL", "FLOAT", "DOUBLE"),
    "FLOAT": (*_WHOLE, "FLOAT"),
    "DOUBLE": (*_WHOLE, "FLOAT", "DOUBLE"),
    "STRING": ("STRING", "CHAR", "VARCHAR"),
    "TIMESTAMP": ("TIMESTAMP", "DATE"),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ", "DATE"),
    "DATE": ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
}


def load_delta(table: KeyedTable, typed: TypedPlan, source: str, rows: DataFrame, options: LoadOptions) -> int:
    """Write the rows of a Delta table. Returns their number.

    Columns are found by name; columns that the source lacks are null. Raises UsageError, before anything is written,
    for a missing key column, for columns that the table does not have, for values that a column cannot hold exactly,
    and for rows without a key or with the key of another row.
    """
    options.refuse_types(table.plan.name)
    names = dict(zip(options.key, typed.key, strict=False))
    wanted = wanted_columns(typed, table.plan.name, source, rows.columns, options.key)
    kept = [F.col(quoted(one.name)).alias(one.name) for one in wanted if one.name not in names.values()]
    keys = [F.col(quoted(given)).alias(own) for given, own in names.items()]
    found = rows.select(*kept, *keys)
    types = {one.name: one.type for one in columns_of_json(found.schema.jsonValue()["fields"])}
    columns = [column for column in typed.columns if column.name in types]
    _check_types(source, columns, types)
    counts = [F.count_if(_is_bad(one, types[one.name])).alias(_BAD.format(one.name)) for one in columns]
    counted = found.agg(*counts).first()
    for one in columns:
        if counted is not None and counted[_BAD.format(one.name)]:
            raise UsageError(
                f"{source}: column {one.name} has {counted[_BAD.format(one.name)]} values that are not {one.type}"
            )
    cast = found.select(*(F.col(quoted(one.name)).try_cast(str(one.type)).alias(one.name) for one in columns))
    total = _count(cast, source, typed.key)
    table.put_rows(cast)
    return total


def _check_types(source: str, columns: Sequence[TableColumn], types: dict[str, Type]) -> None:
    for one in columns:
        has = types[one.name]
        if has != one.type and has.name not in _TAKES.get(one.type.name, ()):
            raise UsageError(
                f"{source}: column {one.name} is {has}, and the table has {one.type}: cast it in a view of the source"
            )


def _is_bad(column: TableColumn, has: Type) -> Column:
    """Whether a value is changed by the cast to its column's type: it does not come back by a cast to its own type."""
    value = F.col(quoted(column.name))
    if has == column.type:
        return F.lit(False)
    # A FLOAT takes a rounded DECIMAL for its own value: a DOUBLE tells the two apart.
    own = "DOUBLE" if has.name == "FLOAT" and column.type.name == "DECIMAL" else str(has)
    value = value.cast(own)
    there_and_back = value.try_cast(str(column.type)).try_cast(own)
    return value.isNotNull() & ~F.coalesce(there_and_back == value, F.lit(False))


def _count(rows: DataFrame, source: str, key: Sequence[str]) -> int:
    columns = [F.col(quoted(name)) for name in key]
    without = F.count_if(F.greatest(*(column.isNull() for column in columns), F.lit(False)))
    row = rows.agg(F.count("*").alias(_ROWS), F.count_distinct(*columns).alias(_KEYS), without.alias(_EMPTY)).first()
    total, keys, empty = (row[_ROWS], row[_KEYS], row[_EMPTY]) if row is not None else (0, 0, 0)
    if empty or keys < total:
        problem = f"{empty} rows have no key" if empty else f"{total - keys} rows have the key of another one"
        raise UsageError(f"{source}: {problem} ({', '.join(key)})")
    return int(total)

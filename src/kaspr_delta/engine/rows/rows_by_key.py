"""Rows of a table by their keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kaspr_delta.engine.rows.local_rows import LocalRows, rows_within, set_adaptive, union_all
from kaspr_delta.engine.rows.rows import Rows, ValueFunction
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.spark.look_up import having
from kaspr_delta.storage.tables import Tables, Texts

Keys: TypeAlias = "Collection[str] | Rows | None"
"""The keys of rows to look up: known texts, rows with a column ``key``, or None for all rows."""


def found_rows(delta: Tables, spark: SparkSession, table: str, texts: Texts, version: int | None = None) -> Rows:
    """The rows that match; on the driver if delta-rs can read them (``Limits.looked_up``). No Spark action."""
    found = delta.look_up(spark, table, texts, version)
    return LocalRows(spark, found) if isinstance(found, pa.Table) else SparkRows(found)


def rows_having(delta: Tables, spark: SparkSession, table: str, keys: Rows, column: str = "key") -> Rows:
    """At least the rows of a table that have one of these keys, in the column ``key``, in a column. No Spark action."""
    if isinstance(keys, LocalRows):
        return found_rows(delta, spark, table, {column: keys.distinct("key")})
    return SparkRows(delta.read(spark, table))


def rows_with(delta: Tables, spark: SparkSession, table: str, keys_of: Mapping[str, Rows], columns: str) -> Rows:
    """At least the rows of a table, with ``columns`` (DDL), that have one of a column's keys in that column.

    ``keys_of`` has the keys by column; one column is enough. Where the keys are on the driver the rows are looked up:
    without Spark, or by one action of Spark. If more rows have a key than fit there (``Limits.looked_up``,
    ``Limits.small_batch``), two actions find and count them. Of many keys, in Spark, all rows are returned.
    """
    local = {name: keys for name, keys in keys_of.items() if isinstance(keys, LocalRows)}
    if len(local) < len(keys_of):
        return SparkRows(delta.read(spark, table))
    texts: Texts = {name: keys.distinct("key") for name, keys in local.items() if keys.max_rows}
    if not texts:
        return LocalRows(spark, arrow_schema(columns).empty_table())
    found = collected_with(union_all([*local.values()]), found_rows(delta, spark, table, texts), delta)
    if isinstance(found, LocalRows):
        return found
    rows = SparkRows(having(delta.read(spark, table), texts, delta.limits))
    set_adaptive(spark, delta.limits, rows)
    count = rows.count()
    return replace(rows, max_rows=count if count <= delta.limits.broadcast_rows else None)


def stored_rows(
    delta: Tables, spark: SparkSession, table: str, keys: Rows, derived: Mapping[str, tuple[str, ValueFunction]]
) -> Rows:
    """The stored rows of these keys; ``derived`` names columns to add, each a function of a column.

    On the driver if the keys are and the rows fit there; one Spark action at most.
    """
    only_in_spark = any(function.array is None for _, function in derived.values())
    if only_in_spark or not isinstance(keys, LocalRows):
        rows: Rows = SparkRows(among(delta.read(spark, table), keys, ("key",), delta))
    else:
        rows = found_rows(delta, spark, table, {"key": keys.distinct("key")})
    for name, (of, function) in derived.items():
        rows = rows.derive(name, function, of)
    return collected_with(keys, rows, delta)


def few_keys(keys: Rows) -> Rows | None:
    """The keys, if they are on the driver, to look up their rows; None if there are many: then all rows are read."""
    return keys if isinstance(keys, LocalRows) else None


def among(rows: DataFrame, keys: Keys, row_key_columns: Sequence[str], delta: Tables) -> DataFrame:
    """The rows of these keys, by these columns."""
    if keys is None:
        return rows
    texts = keys.distinct("key") if isinstance(keys, LocalRows) and len(row_key_columns) == 1 else keys
    if isinstance(texts, Collection):
        return having(rows, {"key": texts}, delta.limits)
    columns = list(row_key_columns)
    return SparkRows(rows).join(texts.select(*columns), columns, "left_semi").df


def collected_with(keys: Rows, found: Rows, delta: Tables) -> Rows:
    """Rows that were found for keys, on the driver if the keys are and the rows fit there; one Spark action at most.

    Rows that Spark finds fit up to ``Limits.small_batch``.
    """
    if not isinstance(keys, LocalRows) or isinstance(found, LocalRows):
        return found
    return rows_within(found.df, delta.limits.small_batch)

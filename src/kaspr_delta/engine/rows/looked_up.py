"""Rows of a table by their keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from kaspr_delta.engine.rows.local_rows import LocalRows, within
from kaspr_delta.engine.rows.planning import files_read
from kaspr_delta.engine.rows.rows import Rows, ValueFunction
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.rows.value_functions import InSpark
from kaspr_delta.storage.spark.look_up import having
from kaspr_delta.storage.tables import Tables, Texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Keys: TypeAlias = "Collection[str] | Rows | None"
"""The keys of rows to look up: known texts, rows with a column ``key``, or None for all rows."""


def looked_up(delta: Tables, spark: SparkSession, table: str, texts: Texts, version: int | None = None) -> Rows:
    """The rows that match; on the driver if delta-rs can read them (``Limits.looked_up``). No Spark action."""
    found = delta.look_up(spark, table, texts, version)
    if isinstance(found, pa.Table):
        return LocalRows(spark, found, delta.limits)
    return SparkRows(found, limits=delta.limits)


def stored_rows(
    delta: Tables, spark: SparkSession, table: str, keys: Rows, derived: Mapping[str, tuple[str, ValueFunction]]
) -> Rows:
    """The stored rows of these keys; ``derived`` names columns to add, each a function of a column.

    On the driver if the keys are and the rows fit there; one Spark action at most.
    """
    only_in_spark = any(isinstance(function, InSpark) for _, function in derived.values())
    if only_in_spark or not isinstance(keys, LocalRows):
        rows: Rows = SparkRows(among(delta.read(spark, table), keys, ("key",), delta), limits=delta.limits)
    else:
        rows = looked_up(delta, spark, table, {"key": keys.texts("key")})
    for name, (of, function) in derived.items():
        rows = rows.derive(name, function, of)
    return collected_with(keys, rows, delta)


def among(rows: DataFrame, keys: Keys, row_key_columns: Sequence[str], delta: Tables) -> DataFrame:
    """The rows of these keys, by these columns."""
    if keys is None:
        return rows
    texts = keys.texts("key") if isinstance(keys, LocalRows) and len(row_key_columns) == 1 else keys
    if isinstance(texts, Collection):
        return having(rows, {"key": texts}, delta.limits)
    return SparkRows(rows, limits=delta.limits).of_keys(texts, row_key_columns).df


def collected_with(keys: Rows, found: Rows, delta: Tables) -> Rows:
    """Rows that were found for keys, on the driver if the keys are and the rows fit there; one Spark action at most.

    Rows that Spark finds fit up to ``Limits.small_batch``. Of few keys the files that it reads are counted.
    """
    if not isinstance(keys, LocalRows) or isinstance(found, LocalRows):
        return found
    if keys.max_rows <= delta.limits.few.rows:
        delta.statistics.files_looked_up.add(files_read(found.df))
    return within(found, delta.limits.small_batch)

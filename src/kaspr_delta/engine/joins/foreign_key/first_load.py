"""Shortcuts of a first load: without subscriptions there is nothing to compare with and nothing to look up."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.storage.arrow_types import collected
from kaspr_delta.storage.limits import Limits
from kaspr_delta.storage.tables import Commit

# Texts and whole numbers in canonical JSON. There are other canonical keys: this matches the usual ones.
USUAL_KEY = r'"[ !#-\[\]-~]*"|0|-?[1-9][0-9]{0,17}'
_WHOLE_KEY = rf"\A({USUAL_KEY})\z"

# The bytes of a row beside its key and value in a broadcast.
_ROW_BYTES = 64


class KeyCounts(NamedTuple):
    """The number of rows of a table, of its distinct usual keys, and of bytes: 0 unless they were asked for."""

    rows: int
    distinct: int
    size: int

    def fits(self, limits: Limits) -> bool:
        """Whether the table can be broadcast."""
        return self.size <= limits.first_load_broadcast


def usual_keys(table: KeyedTable, spark: SparkSession, commit: Commit, *, sized: bool = False) -> KeyCounts | None:
    """Count the rows of a table, and their bytes if ``sized``; None if a key is not usual or not unique.

    Spark compares the hashes of keys: two keys with the same hash give None too, which only loses the shortcut.
    """
    rows, limits = table.delta.count(spark, table.plan.delta_name, commit.version), table.delta.limits
    counts = _counted_in_files(table, spark, commit, sized=sized) if rows <= limits.first_load_compared else None
    if counts is None:
        counts = _counted_by_hash(table, spark, commit, sized=sized, on_driver=rows <= limits.first_load_hashed)
    return None if counts.distinct < counts.rows else counts


def _counted_in_files(table: KeyedTable, spark: SparkSession, commit: Commit, *, sized: bool) -> KeyCounts | None:
    scan = table.scan(spark, commit)
    if scan is None or not scan.reads_files:
        return None
    usual = "CASE WHEN regexp_like(key, {pattern}) THEN key END"
    size = f"coalesce(sum(octet_length(key) + octet_length(value) + {_ROW_BYTES}), 0)" if sized else "0"
    return KeyCounts(*scan.aggregate(f"count(*), count(DISTINCT {usual}), {size}", pattern=_WHOLE_KEY))


def _counted_by_hash(
    table: KeyedTable, spark: SparkSession, commit: Commit, *, sized: bool, on_driver: bool
) -> KeyCounts:
    """Count by the hashes of the usual keys, which are compared on the driver or in Spark."""
    usual = F.col("key").isNotNull() if table.has_raw_keys else F.col("key").rlike(_WHOLE_KEY)
    size = (F.octet_length("key") + F.octet_length("value") + F.lit(_ROW_BYTES)).alias("size")
    rows = table.delta.read(spark, table.plan.delta_name, commit.version)
    rows = rows.select(table.key, *([table.value] if sized else []))
    hashed = rows.select(F.when(usual, F.xxhash64("key")).alias("hash"), *([size] if sized else []))
    if on_driver:
        found = collected(hashed)
        total = pc.sum(found["size"]).as_py() if sized else 0
        return KeyCounts(found.num_rows, len(found["hash"].unique().drop_null()), total or 0)
    sum_of_sizes = F.coalesce(F.sum("size"), F.lit(0)) if sized else F.lit(0)
    return KeyCounts(*hashed.agg(F.count("*"), F.count_distinct("hash"), sum_of_sizes).collect()[0])

"""Shortcuts of a first load: without subscriptions there is nothing to compare with and nothing to look up."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow.compute as pc
from pyspark.sql import functions as F

from kaspr_delta.engine.joins.foreign_key.send import NEVER_SEEN
from kaspr_delta.engine.rows.rows import FEW_ROWS
from kaspr_delta.storage.spark.frames import collected

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kaspr_delta.engine.rows.keyed_table import KeyedTable
    from kaspr_delta.storage.tables import Commit

# Texts and whole numbers in canonical JSON. There are other canonical keys: this matches the usual ones.
USUAL_KEY = r'"[ !#-\[\]-~]*"|0|-?[1-9][0-9]{0,17}'
_WHOLE_KEY = rf"\A({USUAL_KEY})\z"

# A right table of at most so many bytes is broadcast: then the left rows, which are many, need no shuffle. For each row
# `_ROW_BYTES` are added to its key and value.
_SENT_WHOLE = 64 << 20
_ROW_BYTES = 64
# The most keys that are compared on the driver without Spark: they take 200 bytes each for a moment. Of more keys, and
# of keys that only Spark can read, up to `_HASHED_HERE` hashes are collected to the driver: 8 bytes each, no shuffle.
_TOLD_HERE = 1 << 21
_HASHED_HERE = 1 << 24


class UsualKeys(NamedTuple):
    """The number of rows of a table whose keys are usual and unique, and their size in bytes if it was asked for."""

    rows: int
    size: int | None = None

    @property
    def small(self) -> bool:
        """Whether the table can be broadcast."""
        return self.size is not None and self.size <= _SENT_WHOLE


def is_large(table: KeyedTable, spark: SparkSession, commit: Commit) -> bool:
    """Whether a table has more than ``FEW_ROWS`` rows, which are better left to Spark's workers."""
    return table.delta.count(spark, table.plan.delta_name, commit.version) > FEW_ROWS


def usual_keys(table: KeyedTable, spark: SparkSession, commit: Commit, *, sized: bool = False) -> UsualKeys | None:
    """Count the rows of a table, and their bytes if ``sized``; None if a key is not usual or not unique.

    Spark compares the hashes of keys: two keys with the same hash give None too, which only loses the shortcut.
    """
    rows = table.delta.count(spark, table.plan.delta_name, commit.version)
    told = _told_here(table, spark, commit, sized=sized) if rows <= _TOLD_HERE else None
    if told is None:
        hashed = _hashed(table, spark, commit, sized=sized)
        told = _told_of_hashes(hashed) if rows <= _HASHED_HERE else _told_by_spark(hashed)
    if told.apart < told.rows:
        return None
    return UsualKeys(told.rows, told.size if sized else None)


class _Told(NamedTuple):
    """The number of rows of a table, of its distinct usual keys, and of bytes if they were asked for."""

    rows: int
    apart: int
    size: int


def _told_here(table: KeyedTable, spark: SparkSession, commit: Commit, *, sized: bool) -> _Told | None:
    scan = table.scan(spark, commit)
    if scan is None or not scan.reads_files:
        return None
    usual = "CASE WHEN regexp_like(key, {pattern}) THEN key END"
    size = f"coalesce(sum(octet_length(key) + octet_length(value) + {_ROW_BYTES}), 0)" if sized else "0"
    return _Told(*scan.aggregate(f"count(*), count(DISTINCT {usual}), {size}", pattern=_WHOLE_KEY))


def _hashed(table: KeyedTable, spark: SparkSession, commit: Commit, *, sized: bool) -> DataFrame:
    """Columns hash (NULL for a key that is not usual) and, if ``sized``, size."""
    usual = F.col("key").isNotNull() if table.plan.serializers.key == "raw" else F.col("key").rlike(_WHOLE_KEY)
    size = (F.octet_length("key") + F.octet_length("value") + F.lit(_ROW_BYTES)).alias("size")
    rows = table.delta.read(spark, table.plan.delta_name, commit.version)
    rows = rows.select(table.key, *([table.value] if sized else []))
    return rows.select(F.when(usual, F.xxhash64("key")).alias("hash"), *([size] if sized else []))


def _told_of_hashes(hashed: DataFrame) -> _Told:
    found = collected(hashed)
    apart = found["hash"].unique().drop_null()
    size = pc.sum(found["size"]).as_py() if "size" in found.column_names else 0
    return _Told(found.num_rows, len(apart), size or 0)


def _told_by_spark(hashed: DataFrame) -> _Told:
    size = F.sum("size") if "size" in hashed.columns else F.lit(0)
    (found,) = hashed.agg(F.count("*"), F.count_distinct("hash"), F.coalesce(size, F.lit(0))).collect()
    return _Told(*found)


def never_seen(commit: Commit) -> dict[str, Column]:
    """The columns of ``known`` that are the same for all left keys of a first load, each of which has one row."""
    known = {**NEVER_SEEN, "emitted": None}
    columns = {name: F.lit(None).cast("string") if value is None else F.lit(value) for name, value in known.items()}
    return {"changed_at": F.lit(commit.at), **columns}

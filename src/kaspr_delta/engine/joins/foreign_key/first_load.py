"""What a first load may leave out: where nothing was known before, nothing has to be compared or found again."""

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

# Texts and whole numbers as canonical JSON has them. There are other canonical keys: this asks for the usual ones.
USUAL_KEY = r'"[ !#-\[\]-~]*"|0|-?[1-9][0-9]{0,17}'
_WHOLE_KEY = rf"\A({USUAL_KEY})\z"

# A right side of so many bytes is sent to every task whole: then the left rows, which are many, need no shuffle. A row
# takes so many beside its key and value.
_SENT_WHOLE = 64 << 20
_ROW_BYTES = 64
# So many keys at most are told apart here, without Spark: they take 200 bytes each for a moment. Of more of them, and
# where only Spark can read them, the hashes are brought to the driver: 8 bytes each, and no shuffle.
_TOLD_HERE = 1 << 21
_HASHED_HERE = 1 << 24


class UsualKeys(NamedTuple):
    """How many rows a table has, each with a key of its own, and how many bytes they are, if that was asked."""

    rows: int
    size: int | None = None

    @property
    def small(self) -> bool:
        """Whether the table can be sent to every task."""
        return self.size is not None and self.size <= _SENT_WHOLE


def is_large(table: KeyedTable, spark: SparkSession, commit: Commit) -> bool:
    """Whether its rows are better left to Spark's workers."""
    return table.delta.count(spark, table.plan.delta_name, commit.version) > FEW_ROWS


def usual_keys(table: KeyedTable, spark: SparkSession, commit: Commit, *, sized: bool = False) -> UsualKeys | None:
    """What a table has, with its bytes if ``sized``; None where a key stands there twice or might be none for joins.

    Spark tells keys apart by their hashes: two that share one only take the common way.
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
    """How many rows a table has, how many usual keys that differ, and how many bytes, if they were asked for."""

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
    """Columns hash, NULL for keys that are not usual, and size, if it was asked for."""
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
    """What is known of all left keys when a join has never seen one, and each has one row."""
    known = {**NEVER_SEEN, "emitted": None}
    columns = {name: F.lit(None).cast("string") if value is None else F.lit(value) for name, value in known.items()}
    return {"changed_at": F.lit(commit.at), **columns}

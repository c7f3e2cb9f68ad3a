"""What a first load may leave out: where nothing was known before, nothing has to be compared or found again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow.compute as pc
from pyspark.sql import functions as F

from kaspr_delta.engine.foreign_key_join.send import NEVER_SEEN
from kaspr_delta.engine.rows import FEW_ROWS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kaspr_delta.engine.live_table import LiveTable
    from kaspr_delta.storage.delta import Commit

# Texts and whole numbers as canonical JSON has them. There are other canonical keys: this asks for the usual ones.
USUAL_KEY = r'"[ !#-\[\]-~]*"|0|-?[1-9][0-9]{0,17}'

# A right side of so many bytes is sent to every task whole: then the left rows, which are many, need no shuffle. A row
# takes so many beside its key and value.
_SENT_WHOLE = 64 << 20
_ROW_BYTES = 64
# Of so many keys at most the hashes are brought to the driver to tell them apart: 8 bytes each, and no shuffle.
_HASHED_HERE = 1 << 24


class UsualKeys(NamedTuple):
    """How many rows a table has, each with a key of its own, and how many bytes they are, if that was asked."""

    rows: int
    size: int | None = None

    @property
    def small(self) -> bool:
        """Whether the table can be sent to every task."""
        return self.size is not None and self.size <= _SENT_WHOLE


def is_large(table: LiveTable, spark: SparkSession, commit: Commit) -> bool:
    """Whether its rows are better left to Spark's workers; Delta's log tells how many there are."""
    return table.delta.read(spark, table.plan.delta_name, commit.version).count() > FEW_ROWS


def usual_keys(table: LiveTable, spark: SparkSession, commit: Commit, *, sized: bool = False) -> UsualKeys | None:
    """What a table has, with its bytes if ``sized``; None where a key stands there twice or might be none for joins.

    Keys are told apart by their hashes: two that share one only take the common way.
    """
    usual = F.col("key").isNotNull()
    if table.plan.serializers.key != "raw":
        usual = F.col("key").rlike(rf"\A({USUAL_KEY})\z")
    rows = table.delta.read(spark, table.plan.delta_name, commit.version)
    many = rows.count() > _HASHED_HERE  # Delta's log tells
    rows = rows.select(table.key, *([table.value] if sized else []))
    hashed = rows.select(F.when(usual, F.xxhash64("key")).alias("hash"), *([_size()] if sized else []))
    told = _told_by_spark(hashed) if many else _told_here(hashed)
    if told.apart < told.rows:
        return None
    return UsualKeys(told.rows, told.size if sized else None)


class _Told(NamedTuple):
    """Of hashes, NULL for what is not usual, and sizes: how many rows, how many hashes apart, how many bytes."""

    rows: int
    apart: int
    size: int


def _told_here(hashed: DataFrame) -> _Told:
    found = hashed.toArrow()
    apart = found["hash"].unique().drop_null()
    size = pc.sum(found["size"]).as_py() if "size" in found.column_names else 0
    return _Told(found.num_rows, len(apart), size or 0)


def _told_by_spark(hashed: DataFrame) -> _Told:
    size = F.sum("size") if "size" in hashed.columns else F.lit(0)
    (found,) = hashed.agg(F.count("*"), F.count_distinct("hash"), F.coalesce(size, F.lit(0))).collect()
    return _Told(*found)


def _size() -> Column:
    return (F.octet_length("key") + F.octet_length("value") + F.lit(_ROW_BYTES)).alias("size")


def never_seen(commit: Commit) -> dict[str, Column]:
    """What is known of all left keys when a join has never seen one, and each has one row."""
    known = {**NEVER_SEEN, "emitted": None}
    columns = {name: F.lit(None).cast("string") if value is None else F.lit(value) for name, value in known.items()}
    return {"changed_at": F.lit(commit.at), **columns}

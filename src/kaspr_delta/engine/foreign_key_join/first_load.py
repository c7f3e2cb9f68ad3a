"""What a first load may leave out: where nothing was known before, nothing has to be compared or found again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from kaspr_delta.engine.rows import FEW_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kaspr_delta.engine.live_table import LiveTable
    from kaspr_delta.storage.delta import Commit

# Texts and whole numbers as canonical JSON has them. There are other canonical keys: this asks for the usual ones.
USUAL_KEY = r'"[ !#-\[\]-~]*"|0|-?[1-9][0-9]{0,17}'

# A right side of so many bytes is sent to every task whole: then the left rows, which are many, need no shuffle. A row
# takes so many beside its key and value.
_SENT_WHOLE = 64 << 20
_ROW_BYTES = 64


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
    usual = F.coalesce(F.col("key").rlike(rf"\A({USUAL_KEY})\z"), F.lit(False))
    usual = F.col("key").isNotNull() if table.plan.serializers.key == "raw" else usual
    size = F.octet_length("key") + F.octet_length("value") + F.lit(_ROW_BYTES) if sized else F.lit(0)
    rows = table.delta.read(spark, table.plan.delta_name, commit.version)
    rows = rows.select(table.key, *([table.value] if sized else []))
    hashed = rows.select(F.xxhash64("key").alias("hash"), usual.alias("usual"), size.alias("size"))
    keys = hashed.groupBy("hash").agg(
        F.count("*").alias("rows"), F.bool_and("usual").alias("usual"), F.sum("size").alias("size")
    )
    found = keys.agg(
        F.count("*").alias("keys"),
        F.max("rows").alias("most"),
        F.bool_and("usual").alias("usual"),
        F.sum("size").alias("size"),
    ).first()
    if found is None or (found["keys"] and (found["most"] > 1 or not found["usual"])):
        return None
    return UsualKeys(int(found["keys"]), (found["size"] or 0) if sized else None)


def never_subscribed(rows: DataFrame, commit: Commit) -> DataFrame:
    """Rows with what is known of left keys that a join has never seen."""
    nothing = F.lit(None).cast("string")
    known = {"old_fk": nothing, "old_hash": nothing, "emitted": nothing}
    return rows.withColumns({"changed_at": F.lit(commit.at), "woken": F.lit(False), **known})

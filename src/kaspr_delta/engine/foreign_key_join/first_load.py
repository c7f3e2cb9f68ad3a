"""What a first load may leave out: where nothing was known before, nothing has to be compared or found again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.engine.rows import FEW_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kaspr_delta.engine.live_table import LiveTable
    from kaspr_delta.storage.delta import Commit

# Texts and whole numbers as canonical JSON has them. There are other canonical keys: this asks for the usual ones.
USUAL_KEY = r'"[ !#-\[\]-~]*"|0|-?[1-9][0-9]{0,17}'


def is_large(table: LiveTable, spark: SparkSession, commit: Commit) -> bool:
    """Whether its rows are better left to Spark's workers; Delta's log tells how many there are."""
    return table.delta.read(spark, table.plan.delta_name, commit.version).count() > FEW_ROWS


def usual_keys(table: LiveTable, spark: SparkSession, commit: Commit) -> int | None:
    """How many keys a table has; None where one stands there twice, or might be none that joins take."""
    usual = F.coalesce(F.col("key").rlike(rf"\A({USUAL_KEY})\z"), F.lit(False))
    usual = F.col("key").isNotNull() if table.plan.serializers.key == "raw" else usual
    keys = table.keys(spark, "", commit).groupBy("key").agg(F.count("*").alias("rows"))
    found = keys.agg(F.count("*").alias("keys"), F.max("rows").alias("most"), F.bool_and(usual).alias("usual")).first()
    if found is None or (found["keys"] and (found["most"] > 1 or not found["usual"])):
        return None
    return int(found["keys"])


def never_subscribed(rows: DataFrame, commit: Commit) -> DataFrame:
    """Rows with what is known of left keys that a join has never seen."""
    nothing = F.lit(None).cast("string")
    known = {"old_fk": nothing, "old_hash": nothing, "emitted": nothing}
    return rows.withColumns({"changed_at": F.lit(commit.at), "woken": F.lit(False), **known})

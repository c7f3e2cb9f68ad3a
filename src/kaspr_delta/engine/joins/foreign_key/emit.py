"""Hop 5: results that differ from the last emission go to the log. No-ops are dropped here and only here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.engine.rows.rows import SOME_BYTES, SOME_ROWS, Rows
from kaspr_delta.engine.rows.sequence import seq_of_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def emit(responses: DataFrame) -> DataFrame:
    """The rows of the log for responses: a value, a tombstone if the emitted result no longer holds, or state only."""
    unchanged = F.col("result").eqNullSafe(F.col("emitted"))
    kind = F.when(unchanged, "state").when(F.col("shown"), "value").otherwise("tombstone")
    live = F.col("left").isNotNull()
    same_state = F.col("fk").eqNullSafe(F.col("old_fk")) & F.col("left_hash").eqNullSafe(F.col("old_hash"))
    is_value = F.col("kind") == "value"
    return (
        responses.withColumn("kind", kind)
        .where((F.col("kind") != "state") | ~same_state | F.col("problem").isNotNull())
        .select(
            "key",
            "kind",
            F.when(is_value, F.col("left")).alias("left"),
            F.when(is_value, F.col("right")).alias("right"),
            F.col("result_timestamp").alias("timestamp"),
            "fk",
            "left_hash",
            F.col("result").alias("emitted"),
            live.alias("live"),
            "stale",
            "instruction",
            "problem",
            F.col("problem").isNotNull().alias("failed"),
        )
    )


def in_order(rows: DataFrame) -> DataFrame:
    """Rows of the log with ``seq``: ordered by key, as Kafka Streams answers the subscribers of a row."""
    return rows.sortWithinPartitions("key").withColumn("seq", seq_of_rows())


def as_effects(rows: DataFrame, refused: DataFrame | None, known: Rows) -> Rows:
    """Rows of the log and refused keys, in order; collected if ``known`` is on the driver, up to ``SOME_ROWS``."""
    rows = rows if refused is None else rows.unionByName(refused, allowMissingColumns=True)
    if known.few:
        return Rows.of(in_order(rows.coalesce(1)), counted=True)
    if known.some:
        return Rows.of(in_order(rows), SOME_ROWS, SOME_BYTES)
    return Rows(in_order(rows))

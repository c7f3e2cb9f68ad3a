"""Hop 2, on the right side: subscriptions are received and answered with the right row at the pinned version.

The counterpart of Kafka Streams' ``SubscriptionReceiveProcessorSupplier`` and ``SubscriptionJoinProcessorSupplier``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.engine.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kaspr_delta.engine.live_table import LiveTable


def receive(spark: SparkSession, subscriptions: Rows, right: LiveTable, version: int) -> DataFrame:
    """Subscriptions with what they point at: columns right, right_timestamp are added.

    Few subscriptions look up their keys; many are joined with the whole table.
    """
    keys = None
    if subscriptions.few:
        keys = subscriptions.df.where(F.col("fk").isNotNull()).select(F.col("fk").alias("key")).distinct()
    rows = right.live_rows(spark, version, keys)
    if right.plan.serializers.value == "json":
        rows = rows.where(F.try_parse_json("value").isNotNull())  # what SQL wrote and nobody can read is no row
    found = rows.select(
        F.col("key").alias("fk"),
        F.col("value").alias("right"),
        F.col("timestamp").alias("right_timestamp"),
        F.col("copies").alias("right_copies"),
    )
    answered = subscriptions.df.join(found, "fk", "left")
    return answered.withColumn("problem", F.coalesce("problem", _duplicates()))


def _duplicates() -> Column:
    """Several right rows of one key: one is used, always the same."""
    detail = F.concat(
        F.col("right_copies"), F.lit(" right rows have the key "), F.col("fk"), F.lit(": delete all but one")
    )
    problem = F.struct(F.lit("duplicate key").alias("reason"), detail.alias("detail"), F.col("right").alias("value"))
    return F.when(F.col("right_copies") > 1, problem)

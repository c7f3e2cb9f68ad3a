"""Hop 2, on the right side: subscriptions are received and answered with the right row at the pinned version.

The counterpart of Kafka Streams' ``SubscriptionReceiveProcessorSupplier`` and ``SubscriptionJoinProcessorSupplier``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.engine.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kaspr_delta.engine.live_table import LiveTable


def receive(spark: SparkSession, subscriptions: Rows, right: LiveTable, version: int) -> DataFrame:
    """Subscriptions with what they point at: columns right, right_timestamp are added.

    Few subscriptions look up their keys; many are joined with the whole table.
    """
    keys = None
    if subscriptions.few:
        keys = subscriptions.df.where(F.col("fk").isNotNull()).select(F.col("fk").alias("key")).distinct()
    found = right.live_rows(spark, version, keys).select(
        F.col("key").alias("fk"), F.col("value").alias("right"), F.col("timestamp").alias("right_timestamp")
    )
    return subscriptions.df.join(found, "fk", "left")

"""Hop 3, on the right side: every subscriber of a touched right key.

The counterpart of Kafka Streams' ``ForeignTableJoinProcessorSupplier``: there a prefix scan over combined keys, here a
join on the foreign key, which is exact: ``P1`` never wakes ``P10``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def woken(subscriptions: DataFrame, right_keys: DataFrame, left_keys: DataFrame) -> DataFrame:
    """Subscribers of the right keys (columns key, changed_at), except left keys that were touched themselves.

    Columns key, changed_at, and those of ``subscriptions`` except fk.
    """
    touched = right_keys.select(F.col("key").alias("fk"), "changed_at")
    subscribers = subscriptions.join(touched, "fk", "inner").drop("fk")
    return subscribers.join(left_keys.select("key"), "key", "left_anti")

"""Hop 2, on the right side: subscriptions are received and answered with the right row at the pinned version.

The counterpart of Kafka Streams' ``SubscriptionReceiveProcessorSupplier`` and ``SubscriptionJoinProcessorSupplier``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.engine.batch.dead_letters import problem
from kaspr_delta.engine.rows.rows import Rows, merged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kaspr_delta.engine.rows.keyed_table import KeyedTable


def receive(
    subscriptions: Rows, right: KeyedTable, version: int, *, each_once: bool = False, small: bool = False
) -> DataFrame:
    """Return subscriptions with the right rows they refer to: columns right, right_hash and right_timestamp are added.

    Subscriptions that are on the driver look up their keys; many are joined with the whole table. An unreadable right
    row, which SQL wrote, counts as missing; each of its subscribers gets a dead letter. ``each_once``: no right key has
    several rows. ``small``: the right table can be broadcast.
    """
    spark = subscriptions.spark
    keys = subscriptions.values("fk") if subscriptions.here else None
    stored = right.stored(spark, version, keys)
    found = right.live(stored.df, keys, typed=True, each_once=each_once).select(
        F.col("key").alias("fk"),
        F.col("value").alias("stored"),
        F.col("timestamp").alias("right_timestamp"),
        F.col("copies").alias("right_copies"),
    )
    found = found.withColumn("right", F.when(right.is_readable(F.col("stored")), F.col("stored")))
    found = found.withColumn("right_hash", right.fingerprint(F.col("right")))
    # A broadcast avoids a shuffle, which would send all rows of a hot key to one task.
    found = merged(found) if subscriptions.few else F.broadcast(found) if small or stored.here else found
    answered = subscriptions.df.join(found, "fk", "left")
    text = right.as_text(F.col("stored"))
    return answered.withColumn("problem", F.coalesce("problem", _duplicates(text), _unreadable(text)))


def _duplicates(stored: Column) -> Column:
    """The problem of a key with several right rows: one is used, always the same."""
    detail = F.concat(
        F.col("right_copies"), F.lit(" right rows have the key "), F.col("fk"), F.lit(": delete all but one")
    )
    return F.when(F.col("right_copies") > 1, problem("duplicate key", detail, stored))


def _unreadable(stored: Column) -> Column:
    detail = F.concat(
        F.lit("the right row with the key "), F.col("fk"), F.lit(" is not JSON text: repair or delete it")
    )
    missing = F.col("right").isNull() & F.col("stored").isNotNull()
    return F.when(missing, problem("right value cannot be read", detail, stored))

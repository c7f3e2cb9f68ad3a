"""The input of the hops: for each affected left key its stored subscription and its current row.

Columns key, changed_at, triggered_by_right, old_fk, old_hash, emitted, and those of ``left_rows``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw

from kaspr_delta.engine.joins.foreign_key.right_change import triggered_by_right
from kaspr_delta.engine.joins.foreign_key.subscriptions import Subscriptions
from kaspr_delta.engine.joins.side_rows import side_rows
from kaspr_delta.engine.joins.touched import Touched
from kaspr_delta.engine.rows.expressions import FALSE, TRUE
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.storage.tables import Commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def left_context(subscriptions: Subscriptions, touched: Touched, left: KeyedTable, pinned: Commit) -> Rows:
    """The input of ``send`` for touched left keys, and for left keys that subscribe to a touched right key."""
    left_keys, right_keys = touched.keys["left"], touched.keys["right"]
    stored = subscriptions.relevant_to(left_keys, right_keys).select(
        "key", "fk", nw.col("fk").alias("old_fk"), nw.col("left_hash").alias("old_hash"), "emitted"
    )
    # Reduce the subscriptions to touched keys first: the left join then takes a part of the table, not all of it.
    own = stored.join(left_keys, "key", "left_semi").select("key", "old_fk", "old_hash", "emitted")
    changed = left_keys.join(own, "key").with_columns(triggered_by_right=FALSE)
    triggered = triggered_by_right(stored, right_keys, left_keys).with_columns(triggered_by_right=TRUE)
    affected = changed.union(triggered)
    return affected.join(left_rows(left, left_keys.spark, pinned, affected.select("key")), "key")


def left_rows(
    left: KeyedTable, spark: SparkSession, pinned: Commit, keys: Rows | None, *, unique_keys: bool = False
) -> Rows:
    """Left rows at a version: columns key, left, left_hash, left_timestamp, duplicate_count and left_text.

    ``left_text`` is NULL unless a key has several rows (see ``side_rows``).
    """
    return side_rows(left, spark, pinned.version, keys, unique_keys=unique_keys).select(
        "key",
        nw.col("value").alias("left"),
        nw.col("hash").alias("left_hash"),
        nw.col("timestamp").alias("left_timestamp"),
        "duplicate_count",
        nw.when(nw.col("duplicate_count") > 1).then(nw.col("text")).alias("left_text"),
    )

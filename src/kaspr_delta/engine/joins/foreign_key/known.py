"""The input of hop 1: for each affected left key its stored subscription and its current row.

Columns key, changed_at, woken, old_fk, old_hash, emitted, left, left_hash, left_timestamp, copies.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.engine.joins.foreign_key.known_here import known_here
from kaspr_delta.engine.joins.foreign_key.right_change import woken
from kaspr_delta.engine.joins.foreign_key.subscriptions import Subscriptions
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.planning import plan_for
from kaspr_delta.engine.rows.rows import FEW_ROWS, MANY_BYTES, MANY_ROWS, SOME_BYTES, SOME_ROWS, Keys, Rows, merged
from kaspr_delta.storage.tables import Commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The most keys to broadcast: so many fit the memory of each executor.
_SENT_AROUND = 1_000_000


def known_of(
    subscriptions: Subscriptions, keys: Rows, sides: Collection[str], left: KeyedTable, pinned: Commit
) -> Rows:
    """The input of hop 1 for touched left keys, and for left keys that subscribe to a touched right key.

    ``keys``: touched keys, columns side, key, changed_at, reason. ``sides``: the sides with touched keys; both if
    unknown.
    """
    concerned, wanted = _concerned(subscriptions, keys, sides)
    few = wanted is not None and len(wanted) <= FEW_ROWS
    if wanted is None or len(wanted) > SOME_ROWS:
        plan_for(keys.spark, few=False)
    if wanted is None:
        subscribed = _subscribed(concerned.df, keys, sides, few=few)
        among = subscribed.select("key")
        if keys.here:  # broadcast their many subscribers: then the left table is not shuffled
            among = F.broadcast(among) if concerned.count() <= _SENT_AROUND else among
        return Rows(subscribed.join(left_rows(left, keys.spark, pinned, among), "key", "left"))
    stored = left.stored(keys.spark, pinned.version, wanted)
    if keys.table is not None and concerned.table is not None and stored.table is not None:
        here = known_here(keys.table, concerned.table, stored.table, left.plan)
        if here is not None and here.nbytes <= MANY_BYTES:
            return replace(Rows.held(keys.spark, here), files=concerned.files)
    rows = _as_left(left, left.live(stored.df, wanted, typed=True))
    subscribed = _subscribed(concerned.df, keys, sides, few=few)
    joined = subscribed.join(merged(rows) if few else rows, "key", "left")
    most = (MANY_ROWS, MANY_BYTES) if stored.here else (SOME_ROWS, SOME_BYTES)
    if len(wanted) > most[0]:
        return Rows(joined)
    held = Rows.of(joined, *most, counted=few)
    return replace(held, files=held.files + concerned.files)


def left_rows(
    left: KeyedTable, spark: SparkSession, pinned: Commit, among: Keys = None, *, each_once: bool = False
) -> DataFrame:
    """Left rows at a version: columns key, left, left_hash, left_timestamp, copies (see ``KeyedTable.live_rows``)."""
    return _as_left(left, left.live_rows(spark, pinned.version, among, typed=True, each_once=each_once))


def _as_left(left: KeyedTable, rows: DataFrame) -> DataFrame:
    return rows.select(
        "key",
        F.col("value").alias("left"),
        left.fingerprint(F.col("value")).alias("left_hash"),
        F.col("timestamp").alias("left_timestamp"),
        "copies",
    )


def _concerned(subscriptions: Subscriptions, keys: Rows, sides: Collection[str]) -> tuple[Rows, list[str] | None]:
    """The subscriptions that a batch needs, and all left keys to recompute; None if these are not on the driver.

    If right keys were touched, their subscribers are looked up first, then the left rows. Otherwise the left keys are
    known, and Spark reads subscriptions and rows in one query.
    """
    if not keys.here:
        return Rows(subscriptions.all), None
    left, right = (keys.values("key", side=side, reason=None) for side in ("left", "right"))
    if "right" not in sides:
        return subscriptions.of_keys(left), left
    concerned = subscriptions.of_either(left, right)
    return concerned, list(dict.fromkeys([*left, *concerned.values("key")])) if concerned.here else None


def _subscribed(subscriptions: DataFrame, keys: Rows, sides: Collection[str], *, few: bool) -> DataFrame:
    """Left keys that were touched, or woken by the right key they subscribe to, with their subscriptions.

    Columns key, changed_at, woken, old_fk, old_hash, emitted.
    """
    fit = keys.df.where(F.col("reason").isNull())
    left_keys = fit.where(F.col("side") == "left").select("key", "changed_at")
    right_keys = fit.where(F.col("side") == "right").select("key", "changed_at")
    were = subscriptions.select(
        "key", "fk", F.col("fk").alias("old_fk"), F.col("left_hash").alias("old_hash"), "emitted"
    )
    # Reduce the subscriptions to touched keys first: the left join then takes a part of the table, not all of it.
    theirs = were if keys.here else were.join(left_keys.select("key"), "key", "left_semi")
    if few:
        theirs, left_keys, right_keys = merged(theirs), merged(left_keys), merged(right_keys)
    subscribed = left_keys.join(theirs.drop("fk"), "key", "left").withColumn("woken", F.lit(False))
    if "right" not in sides:
        return subscribed
    return subscribed.unionByName(woken(were, right_keys, left_keys).withColumn("woken", F.lit(True)))

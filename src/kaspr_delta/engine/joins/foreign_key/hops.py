"""The hops of the foreign-key join (KIP-213), in the order in which a batch runs them.

``left_context`` is the input: each affected left key with its stored subscription and its current row. A touched right
key affects its subscribers (``triggered_by_right``). ``send`` finds the foreign keys, ``receive`` the right rows,
``respond`` the results, and ``emit`` keeps those that differ from the last emission.
"""

from __future__ import annotations

from collections.abc import Mapping

import narwhals as nw
from pyspark.sql import SparkSession

from kaspr_delta.engine.joins.foreign_key.extract import ExtractForeignKeys, ForeignKeyColumns
from kaspr_delta.engine.joins.results import (
    checked_rows,
    logged,
    side_of_pairs,
    side_rows,
    with_duplicates,
    with_result,
)
from kaspr_delta.engine.joins.touched import Touched
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.rows import FALSE, TRUE, Rows, exists, first_of, later, same, text
from kaspr_delta.engine.rows.rows_by_key import few_keys
from kaspr_delta.plan.definition.joins import JoinType
from kaspr_delta.storage.layout import PROBLEM
from kaspr_delta.storage.tables import Commit


def left_context(subscriptions: Rows, touched: Touched, left: KeyedTable, pinned: Commit) -> Rows:
    """The input of ``send`` for touched left keys, and for left keys that subscribe to a touched right key.

    Columns key, changed_at, triggered_by_right, old_fk, old_hash, emitted, and those of ``left_rows``.
    """
    left_keys, right_keys = touched.keys["left"], touched.keys["right"]
    stored = subscriptions.select("key", nw.col("fk").alias("old_fk"), nw.col("left_hash").alias("old_hash"), "emitted")
    # Reduce the subscriptions to touched keys first: the left join then takes a part of the table, not all of it.
    own = stored.join(left_keys, "key", "left_semi")
    changed = left_keys.join(own, "key").with_columns(triggered_by_right=FALSE)
    triggered = triggered_by_right(stored, right_keys, left_keys).with_columns(triggered_by_right=TRUE)
    affected = changed.union(triggered)
    return affected.join(left_rows(left, left_keys.spark, pinned, affected.select("key")), "key")


def triggered_by_right(subscriptions: Rows, right_keys: Rows, left_keys: Rows) -> Rows:
    """Right change, on the right side: subscribers of the right keys, which have the columns key and changed_at.

    Left keys that were touched themselves are left out. Kafka Streams' ``ForeignTableJoinProcessorSupplier`` scans
    combined keys by a prefix. This is a join on the foreign key, which is exact: ``P1`` never triggers the subscribers
    of ``P10``. Returns the columns of ``subscriptions`` and changed_at.
    """
    touched = right_keys.select(nw.col("key").alias("old_fk"), "changed_at")
    return subscriptions.join(touched, "old_fk", "inner").join(left_keys.select("key"), "key", "left_anti")


def never_seen(commit: Commit) -> dict[str, nw.Expr]:
    """The columns of ``left_context``, and ``unchanged``, that are the same for all left keys of a first load."""
    return {
        "changed_at": nw.lit(commit.at),
        "triggered_by_right": FALSE,
        "unchanged": FALSE,
        "duplicate_count": nw.lit(1),
        **dict.fromkeys(("old_fk", "old_hash", "emitted", "left_text"), text(None)),
    }


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


def send(
    context: Rows,
    extract: ExtractForeignKeys,
    columns: ForeignKeyColumns | None = None,
    *,
    constants: Mapping[str, nw.Expr] | None = None,
) -> Rows:
    """Send, on the left side: left keys (columns as in ``left_context``) with their foreign key, problem and staleness.

    The counterpart of Kafka Streams' ``SubscriptionSendProcessorSupplier``. A left row that was only triggered by its
    right row, and has not changed since it subscribed (same hash), keeps its foreign key: the extractor is not called.
    A triggered left row that has changed is ``stale``. If the extractor fails, ``fk`` is NULL, and the row gets a dead
    letter.

    In a large batch Spark computes a foreign key that consists of ``columns``. ``constants``, in a first load, are
    columns of the context, and ``unchanged``, that are the same for all rows: they are added after the extractor, so
    that they do not go through Python.
    """
    unchanged = nw.col("triggered_by_right") & same("old_hash", "left_hash")
    rows = context if constants else context.with_columns(unchanged=unchanged)
    rows = rows.extend(extract, f"fk STRING, problem {PROBLEM}", columns.added_to if columns is not None else None)
    rows = rows.with_columns(**constants) if constants else rows
    rows = rows.with_columns(
        fk=nw.when(nw.col("unchanged")).then(nw.col("old_fk")).otherwise(nw.col("fk")),
        problem=nw.when(~nw.col("unchanged")).then(nw.col("problem")),
        stale=nw.col("triggered_by_right") & ~nw.col("unchanged"),
    )
    return with_duplicates(rows, "left", "duplicate_count", "left_text")


def receive(sent: Rows, right: KeyedTable, version: int) -> Rows:
    """Receive, on the right side: rows of ``send`` with the right rows that they refer to, at the pinned version.

    The counterpart of Kafka Streams' ``SubscriptionReceiveProcessorSupplier`` and
    ``SubscriptionJoinProcessorSupplier``. Columns as in ``with_right_rows``. Rows on the driver look up their foreign
    keys. Rows in Spark are joined with all rows of the table: to choose among these by foreign keys would make Spark
    call the extractor twice.
    """
    keys = few_keys(sent.select(nw.col("fk").alias("key")))
    return with_right_rows(sent, checked_rows(right, sent.spark, version, keys))


def with_right_rows(sent: Rows, right: Rows) -> Rows:
    """Join rows of ``send`` with right rows (see ``checked_rows``): adds right, right_hash and right_timestamp.

    An unreadable right row counts as missing; each of its subscribers gets a dead letter (see ``side_of_pairs``).
    """
    found = side_of_pairs(right, "right", key=nw.col("key"))
    found = found.select(nw.col("key").alias("fk"), "right", "right_hash", "right_timestamp", "right_problem")
    rows = sent.join(found, "fk")
    return rows.with_columns(problem=nw.coalesce("problem", "right_problem")).drop("right_problem")


def respond(answered: Rows, join_type: JoinType, selection: str) -> Rows:
    """Response, back on the left side: answered subscriptions with columns result and result_timestamp.

    The counterpart of Kafka Streams' ``ResponseJoinProcessorSupplier``, which drops an answer whose hash is not that of
    the current left row. Here a left row whose hash differs was sent again in the same batch (see ``send``): an old
    left row never meets a new right one.

    The time of a result or a tombstone is the later one of both rows; if only the right row changed, it is the right
    row's, as in Kafka Streams. If only a row was deleted, it is the time of the commit.
    """
    # A row that SQL wrote without a time has the time of the commit that touched it.
    of_both = later(nw.coalesce("left_timestamp", "changed_at"), nw.col("right_timestamp"))
    of_right = nw.coalesce("right_timestamp", "changed_at")
    timestamp = first_of(
        (~exists("left"), nw.col("changed_at")),
        (nw.col("triggered_by_right") & ~nw.col("stale"), of_right),
        otherwise=of_both,
    )
    return with_result(answered, join_type, selection).with_columns(result_timestamp=timestamp)


def emit(results: Rows) -> Rows:
    """Emit: the rows of the log for results that differ from the last emission, and for changed subscriptions.

    Columns as in ``logged``. A subscription with ``live`` false is to be deleted.
    """
    subscriptions = results.with_columns(live=exists("left"))
    is_changed = ~(same("fk", "old_fk") & same("left_hash", "old_hash"))
    return logged(subscriptions, ("fk", "left_hash", "live", "stale"), is_changed)

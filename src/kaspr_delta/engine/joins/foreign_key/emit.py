"""Emit: results that differ from the last emission go to the log. No-ops are dropped here and only here."""

from __future__ import annotations

import narwhals as nw

from kaspr_delta.engine.rows.expressions import exists, first_of, same, text
from kaspr_delta.engine.rows.rows import Rows


def emit(results: Rows) -> Rows:
    """The rows of the log for results.

    A ``value`` where the result differs from the last emission, a ``tombstone`` where that no longer holds, and
    ``state`` where only the subscription or a problem has to be recorded.
    """
    kind = first_of(
        (same("result", "emitted"), text("state")), (nw.col("shown"), text("value")), otherwise=text("tombstone")
    )
    changes_nothing = (nw.col("kind") == "state") & same("fk", "old_fk") & same("left_hash", "old_hash")
    is_value = nw.col("kind") == "value"
    return (
        results.with_columns(kind=kind)
        .filter(~changes_nothing | exists("problem"))
        .select(
            "key",
            "kind",
            nw.when(is_value).then(nw.col("left")).alias("left"),
            nw.when(is_value).then(nw.col("right")).alias("right"),
            nw.col("result_timestamp").alias("timestamp"),
            "fk",
            "left_hash",
            nw.col("result").alias("emitted"),
            exists("left").alias("live"),
            "stale",
            "problem",
            exists("problem").alias("failed"),
        )
    )


def in_order(effects: Rows) -> Rows:
    """Rows of the log with ``seq``: ordered by key, as Kafka Streams answers the subscribers of a row."""
    return effects.numbered("key")

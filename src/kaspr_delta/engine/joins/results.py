"""The results of joins of two tables: which keys have one, what identifies it, and its rows in the log."""

from __future__ import annotations

from collections.abc import Sequence

import narwhals as nw

from kaspr_delta.engine.rows.expressions import FALSE, exists, first_of, same, text
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.plan.definition.joins import JoinType


def with_result(rows: Rows, join_type: JoinType, selection: str) -> Rows:
    """Add the column ``result``: the identity of a key's result, or NULL if the join type gives it none."""
    left, right = exists("left"), exists("right")
    has_result = {"inner": left & right, "left": left, "outer": left | right}[join_type]
    return rows.with_columns(result=nw.when(has_result).then(identity_of_result(selection)))


def identity_of_result(selection: str) -> nw.Expr:
    """The hashes of both rows, and ``selection``, the fingerprint of the select: so that rows need not be compared."""
    hashes = [nw.coalesce(nw.col(name), text("")) for name in ("left_hash", "right_hash")]
    return nw.concat_str(*hashes, *([text(selection)] if selection else []), separator=":")


def emitted_elsewhere() -> nw.Expr:
    """Stored emissions as texts that equal no result, so that every result counts as new: for a channel made anew."""
    return nw.concat_str(nw.col("emitted"), text(" elsewhere"))


def logged(results: Rows, state: Sequence[str] = (), state_changed: nw.Expr = FALSE) -> Rows:
    """The rows of the log for results that differ from the last emission, and for problems. No-ops are dropped here.

    A ``value`` where the result is new, a ``tombstone`` where the emitted one no longer holds, and ``state`` where only
    a problem or a change of the ``state`` columns has to be recorded.
    """
    kind = first_of(
        (same("result", "emitted"), text("state")), (exists("result"), text("value")), otherwise=text("tombstone")
    )
    is_value = nw.col("kind") == "value"
    return (
        results.with_columns(kind=kind)
        .filter((nw.col("kind") != "state") | state_changed | exists("problem"))
        .select(
            "key",
            "kind",
            nw.when(is_value).then(nw.col("left")).alias("left"),
            nw.when(is_value).then(nw.col("right")).alias("right"),
            nw.col("result_timestamp").alias("timestamp"),
            nw.col("result").alias("emitted"),
            *state,
            "problem",
            exists("problem").alias("failed"),
        )
    )


def in_order(effects: Rows) -> Rows:
    """Rows of the log with ``seq``: ordered by key, as Kafka Streams answers the subscribers of a row."""
    return effects.numbered("key")

"""Parts of both joins of two tables: the rows of a side, the result of a key, and the rows of the log."""

from __future__ import annotations

from collections.abc import Sequence

import narwhals as nw
from pyspark.sql import SparkSession

from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.rows import FALSE, Rows, exists, first_of, same, text, with_problem
from kaspr_delta.engine.rows.rows_by_key import collected_with
from kaspr_delta.engine.streams.selector import DUPLICATE_KEY, DUPLICATES
from kaspr_delta.plan.definition.joins import JoinType

IS_VALUE, IS_VALUE_IN_SQL = nw.col("kind") == "value", "kind = 'value'"
"""Whether an effect is a value of the result: as an expression on rows, and for a statement on the log."""


def side_rows(table: KeyedTable, spark: SparkSession, version: int, keys: Rows | None, *, unique_keys: bool) -> Rows:
    """Live rows at a version: columns key, value, timestamp, duplicate_count, hash, text.

    ``keys`` restricts them to those in its column ``key``; the rows are on the driver if the keys are and they fit
    there (see ``collected_with``). ``text`` is the value for people to read. ``unique_keys``: no key has several rows.
    """
    rows = table.live_rows(spark, version, keys, unique_keys=unique_keys).derive("hash", table.hash, "value")
    rows = rows.derive("text", table.text_form, "value")
    return rows if keys is None else collected_with(keys, rows, table.delta)


def checked_rows(
    table: KeyedTable, spark: SparkSession, version: int, keys: Rows | None, *, unique_keys: bool = False
) -> Rows:
    """``side_rows`` with a column ``readable``: the value is valid for the table's serializer.

    SQL may have written another one. An extractor finds that out by itself: left rows of a foreign-key join need no
    check.
    """
    rows = side_rows(table, spark, version, keys, unique_keys=unique_keys)
    return rows.derive("readable", table.readable, "value")


def with_duplicates(  # noqa: PLR0913  the columns of a side
    rows: Rows, side: str, count: str, value: str, *, key: nw.Expr | None = None, name: str = "problem"
) -> Rows:
    """Add the problem of rows whose key several rows of one side have: their number is in the column ``count``.

    ``key`` is named in the message if the dead letter has another one.
    """
    return with_problem(
        rows,
        nw.col(count) > 1,
        reason=text(DUPLICATE_KEY),
        detail=nw.concat_str(
            nw.col(count).cast(nw.String),
            text(f" {side} rows have "),
            text("this key") if key is None else nw.concat_str(text("the key "), key),
            text(DUPLICATES),
        ),
        value=nw.col(value),
        name=name,
    )


def side_of_pairs(rows: Rows, side: str, *, key: nw.Expr | None = None) -> Rows:
    """One side of pairs, from ``checked_rows``: columns key, {side}, {side}_hash, {side}_timestamp, {side}_problem.

    An unreadable row, which SQL wrote, counts as missing, and has a problem. ``key`` is named in the messages if the
    dead letters have another one.
    """
    readable, problem = nw.col("readable"), f"{side}_problem"
    row, hint = f"the {side} row", " is not JSON text: repair or delete it"
    rows = with_problem(
        rows,
        ~readable,
        reason=text("value cannot be read" if key is None else f"{side} value cannot be read"),
        detail=text(row + hint) if key is None else nw.concat_str(text(f"{row} with the key "), key, text(hint)),
        value=nw.col("text"),
        name=problem,
    )
    rows = with_duplicates(rows, side, "duplicate_count", "text", key=key, name=problem)
    return rows.select(
        "key",
        nw.when(readable).then(nw.col("value")).alias(side),
        nw.when(readable).then(nw.col("hash")).alias(f"{side}_hash"),
        nw.when(readable).then(nw.col("timestamp")).alias(f"{side}_timestamp"),
        problem,
    )


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
    """A replacement for ``emitted`` that equals no result: everything is emitted again if the log is new."""
    return nw.concat_str(nw.col("emitted"), text(" elsewhere"))


def logged(results: Rows, state: Sequence[str] = (), state_changed: nw.Expr = FALSE) -> Rows:
    """The rows of the log for results that differ from the last emission, and for problems. No-ops are dropped here.

    A ``value`` where the result is new, a ``tombstone`` where the emitted one no longer holds, and ``state`` where only
    a problem or a change of the ``state`` columns has to be recorded.
    """
    kind = first_of(
        (same("result", "emitted"), text("state")), (exists("result"), text("value")), otherwise=text("tombstone")
    )
    return (
        results.with_columns(kind=kind)
        .filter((nw.col("kind") != "state") | state_changed | exists("problem"))
        .select(
            "key",
            "kind",
            nw.when(IS_VALUE).then(nw.col("left")).alias("left"),
            nw.when(IS_VALUE).then(nw.col("right")).alias("right"),
            nw.col("result_timestamp").alias("timestamp"),
            nw.col("result").alias("emitted"),
            *state,
            "problem",
            exists("problem").alias("failed"),
        )
    )


def numbered(effects: Rows) -> Rows:
    """Rows of the log with ``seq``, which orders them by key, as Kafka Streams answers the subscribers of a row.

    The rows of a large batch are in this order only inside each partition of Spark.
    """
    return effects.numbered("key")

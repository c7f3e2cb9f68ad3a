"""Receive, on the right side: the right row of each foreign key, at the pinned version.

The counterpart of Kafka Streams' ``SubscriptionReceiveProcessorSupplier`` and ``SubscriptionJoinProcessorSupplier``.
"""

from __future__ import annotations

import narwhals as nw

from kaspr_delta.engine.joins.side_rows import side_rows, with_duplicates
from kaspr_delta.engine.rows.expressions import exists, text, with_problem
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.rows import Rows


def receive(sent: Rows, right: KeyedTable, version: int) -> Rows:
    """Return the rows of ``send`` with the right rows that they refer to (see ``with_right_rows``).

    Rows on the driver look up their foreign keys; many are joined with the whole table.
    """
    keys = sent.select(nw.col("fk").alias("key"))
    return with_right_rows(sent, side_rows(right, sent.spark, version, keys))


def with_right_rows(sent: Rows, right: Rows) -> Rows:
    """Join rows of ``send`` with right rows (see ``side_rows``): adds right, right_hash and right_timestamp.

    An unreadable right row, which SQL wrote, counts as missing; each of its subscribers gets a dead letter.
    """
    found = right.select(
        nw.col("key").alias("fk"),
        nw.when(nw.col("readable")).then(nw.col("value")).alias("right"),
        nw.when(nw.col("readable")).then(nw.col("hash")).alias("right_hash"),
        nw.col("timestamp").alias("right_timestamp"),
        nw.col("duplicate_count").alias("right_count"),
        nw.col("readable").alias("right_readable"),
        nw.when(~nw.col("readable") | (nw.col("duplicate_count") > 1)).then(nw.col("text")).alias("right_text"),
    )
    rows = with_duplicates(sent.join(found, "fk"), "right", "right_count", "right_text", key=nw.col("fk"))
    return with_problem(
        rows,
        exists("right_text") & ~nw.col("right_readable"),
        reason=text("right value cannot be read"),
        detail=nw.concat_str(
            text("the right row with the key "), nw.col("fk"), text(" is not JSON text: repair or delete it")
        ),
        value=nw.col("right_text"),
    )

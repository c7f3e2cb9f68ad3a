"""The rows of one side of a join of tables, as its hops use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.looked_up import near
from kaspr_delta.engine.rows.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def side_rows(
    table: KeyedTable, spark: SparkSession, version: int, keys: Rows | None, *, each_once: bool = False
) -> Rows:
    """Live rows at a version: columns key, value, timestamp, duplicate_count, hash, readable, text.

    ``keys`` restricts them to those in its column ``key``; the rows are on the driver if the keys are and they fit
    there (see ``near``). ``readable``: the value is valid for the table's serializer, which SQL need not have used.
    ``text`` is the value for people to read. ``each_once``: no key has several rows.
    """
    rows = table.live_rows(spark, version, keys, each_once=each_once).derive("hash", table.hash, "value")
    rows = rows.derive("readable", table.readable, "value").derive("text", table.text_form, "value")
    return rows if keys is None else near(keys, rows, table.delta)

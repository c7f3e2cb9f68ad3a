"""The rows of one side of a join of tables, as its hops use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw

from kaspr_delta.engine.rows.expressions import text, with_problem
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.rows_by_key import collected_with
from kaspr_delta.engine.streams.selector import DUPLICATE_KEY, DUPLICATES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def side_rows(
    table: KeyedTable, spark: SparkSession, version: int, keys: Rows | None, *, unique_keys: bool = False
) -> Rows:
    """Live rows at a version: columns key, value, timestamp, duplicate_count, hash, readable, text.

    ``keys`` restricts them to those in its column ``key``; the rows are on the driver if the keys are and they fit
    there (see ``collected_with``). ``readable``: the value is valid for the table's serializer; SQL may have written
    another one. ``text`` is the value for people to read. ``unique_keys``: no key has several rows.
    """
    rows = table.live_rows(spark, version, keys, unique_keys=unique_keys).derive("hash", table.hash, "value")
    rows = rows.derive("readable", table.readable, "value").derive("text", table.text_form, "value")
    return rows if keys is None else collected_with(keys, rows, table.delta)


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

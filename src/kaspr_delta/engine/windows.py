"""Windowed tables over time: rows appear when their window closes, and are deleted when it expires."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

PASSED = ("close", "expire")
"""The kinds of log rows that report windows which a stream has passed."""


def pass_windows(delta: Tables, rows: Rows, table_of: Callable[[Row], TablePlan]) -> None:
    """Show the windows that closed, then remove those that expired.

    They are the rows of the log of the kinds in PASSED: columns kind, stream, window_start, timestamp.
    """
    passed = rows.df.where(F.col("kind").isin(*PASSED)).collect()
    for row in sorted(passed, key=lambda row: str(row["kind"])):
        _pass_window(delta, rows.spark, table_of(row), row)


def _pass_window(delta: Tables, spark: SparkSession, table: TablePlan, row: Row) -> None:
    if row["kind"] == "close":
        span = row["window_start"], row["timestamp"]
        KeyedTable(delta, table).show(spark, table.state, row["stream"], *span)
        return
    passed = "stream = {stream} AND window_end <= {end}"
    for name in dict.fromkeys((table.state, table.delta_name)):
        delta.delete(spark, name, passed, stream=row["stream"], end=row["timestamp"])

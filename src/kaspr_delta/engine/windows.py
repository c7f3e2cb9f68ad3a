"""What happens to the rows of tables with windows when time passes: shown when their window closes, gone in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

PASSED = ("close", "expire")
"""The kinds of rows of a log that tell of windows that a stream has passed."""


def pass_window(delta: Tables, spark: SparkSession, table: TablePlan, row: Row) -> None:
    """Bring a table up to a row of a log of one of these kinds: columns kind, stream, window_start, timestamp."""
    if row["kind"] == "close":
        span = row["window_start"], row["timestamp"]
        KeyedTable(delta, table).show(spark, table.state, row["stream"], *span)
        return
    passed = "stream = {stream} AND window_end <= {end}"
    for name in dict.fromkeys((table.state, table.delta_name)):
        delta.delete(spark, name, passed, stream=row["stream"], end=row["timestamp"])

"""Hints for Spark's planning, and a count of the files that a query reads. Answers do not depend on either."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ADAPTIVE = "spark.sql.adaptive.enabled"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
# With more shuffle partitions adaptive planning pays off even for few rows.
_FEW_PARTITIONS = 8


def plan_for(spark: SparkSession, *, few: bool) -> None:
    """Plan the statements to come for few rows, or for many. ``spark`` is the session of a streaming query.

    Adaptive planning makes a job of every shuffle and every broadcast, to learn how many rows there are. If they are
    known to be few, a statement is one job without it. Only an embedded session, of which a streaming query has its own
    copy, is set: elsewhere the settings are the user's.
    """
    if not runs_here(spark):  # queries of Spark Connect share their settings
        return
    partitions = str(spark.conf.get(_SHUFFLE_PARTITIONS))
    if not partitions.isdigit() or int(partitions) > _FEW_PARTITIONS:  # Databricks has "auto"
        return
    wanted = str(not few).lower()
    if spark.conf.get(_ADAPTIVE) != wanted:
        spark.conf.set(_ADAPTIVE, wanted)


def files_read(rows: DataFrame) -> int:
    """The number of files that a query reads after Delta's file skipping; 0 on Spark Connect.

    The plan is reused when the query runs.
    """
    return len(rows.inputFiles()) if runs_here(rows.sparkSession) else 0


def runs_here(session: SparkSession) -> bool:
    """Whether batches run in this process. Spark Connect, whose sessions have another class, runs them on a server."""
    return ".connect." not in type(session).__module__

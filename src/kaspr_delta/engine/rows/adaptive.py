"""Switches adaptive planning of queries. Only speed depends on it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from kaspr_delta.engine.rows.local_rows import are_few
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.storage.lazy_session import runs_here
from kaspr_delta.storage.limits import Limits

_ADAPTIVE = "spark.sql.adaptive.enabled"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
# With more shuffle partitions adaptive planning pays off even for few rows.
_FEW_PARTITIONS = 8


def plan_for(spark: SparkSession, limits: Limits, *rows: Rows) -> None:
    """Switch adaptive planning off if all these rows, or none, are few and on the driver; else switch it on.

    Adaptive planning makes a job of every shuffle and every broadcast, to learn how many rows there are. If they are
    known to be few, a statement is one job without it. ``spark`` is the session of a streaming query, which has its own
    copy of the settings. Sessions of Spark Connect, and those with many shuffle partitions, stay as they are.
    """
    if not runs_here(spark):  # queries of Spark Connect share their settings
        return
    partitions = str(spark.conf.get(_SHUFFLE_PARTITIONS))
    if not partitions.isdigit() or int(partitions) > _FEW_PARTITIONS:  # Databricks has "auto"
        return
    wanted = str(not are_few(limits, *rows)).lower()
    if spark.conf.get(_ADAPTIVE) != wanted:
        spark.conf.set(_ADAPTIVE, wanted)

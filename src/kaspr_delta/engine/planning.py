"""How Spark plans the statements of a batch: a wish, on which no answer depends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ADAPTIVE = "spark.sql.adaptive.enabled"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
# More partitions than these are better put together by adaptive planning, however few the rows.
_FEW_PARTITIONS = 8


def plan_for(spark: SparkSession, *, few: bool) -> None:
    """Plan the statements to come for few rows, or for many. ``spark`` is the session of a streaming query.

    Adaptive planning makes a job of every shuffle and every broadcast, to learn how many rows there are. Where they are
    known to be few, a statement is one job without it. Only an embedded session, of which a streaming query has a copy
    of its own, is told so: elsewhere the settings are the user's.
    """
    from pyspark.sql import SparkSession

    session: object = spark
    if not isinstance(session, SparkSession):  # that of Spark Connect is another class, and its queries share it
        return
    partitions = str(spark.conf.get(_SHUFFLE_PARTITIONS))
    if not partitions.isdigit() or int(partitions) > _FEW_PARTITIONS:  # Databricks has "auto"
        return
    wanted = str(not few).lower()
    if spark.conf.get(_ADAPTIVE) != wanted:
        spark.conf.set(_ADAPTIVE, wanted)

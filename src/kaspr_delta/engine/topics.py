"""Topics that only a function named. They are written down, for a Delta name does not tell the topic's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaspr_delta.plan.names import topic_table
from kaspr_delta.storage.delta import Delta
from kaspr_delta.storage.layout import SYSTEM, TOPIC, TOPICS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.engine.checkpoint import BatchId
    from kaspr_delta.engine.rows import Rows


def known_topics(delta: Delta, spark: SparkSession) -> set[str]:
    """The topics that were made because a function named them."""
    return {row["name"] for row in delta.read(spark, TOPICS).collect()}


def make_topic(delta: Delta, spark: SparkSession, name: str) -> None:
    """Make a topic, unless it is there."""
    table = topic_table(name)
    if not delta.exists(spark, table):
        # Written down first: a kill in between must not leave a topic that nobody knows by name.
        delta.append(spark.createDataFrame([(name,)], SYSTEM[TOPICS].columns).coalesce(1), TOPICS)
    delta.ensure(spark, table, TOPIC)


def append_to_topic(delta: Delta, records: Rows, topic: str, batch: BatchId, *, note: str | None = None) -> None:
    """Append what a batch sends to a topic, once, however often it is tried. The note stands in the table's history."""
    table, transaction = topic_table(topic), batch.transaction(f"topic:{topic}")
    if records.table is None or note is not None:
        delta.append(records.df, table, transaction, note=note)
    else:
        delta.append_held(records.spark, records.table, table, transaction)

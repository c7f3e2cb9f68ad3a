"""Topics that only a function named. They are recorded: a Delta name does not reveal the topic's name."""

from __future__ import annotations

from pyspark.sql import SparkSession

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.plan.names import topic_table
from kaspr_delta.storage.layout import TOPIC, TOPICS
from kaspr_delta.storage.system_tables import arrow_rows
from kaspr_delta.storage.tables import Tables


def known_topics(delta: Tables, spark: SparkSession) -> set[str]:
    """The topics that were made because a function named them."""
    return {row["name"] for row in delta.read(spark, TOPICS).collect()}


def make_topic(delta: Tables, spark: SparkSession, name: str) -> None:
    """Make a topic, unless it exists."""
    table = topic_table(name)
    if not delta.exists(spark, table):
        # Recorded first: a kill in between must not leave a table whose topic has no known name.
        delta.append(spark, arrow_rows(TOPICS, [(name,)]), TOPICS)
    delta.create(spark, table, TOPIC)


def append_to_topic(delta: Tables, records: Rows, topic: str, batch: BatchId, *, note: str | None = None) -> None:
    """Append the records of a batch to a topic. Idempotent. The note is kept in the table's history."""
    table, transaction = topic_table(topic), batch.transaction(f"topic:{topic}")
    delta.append(records.spark, records.frame, table, transaction, note=note)

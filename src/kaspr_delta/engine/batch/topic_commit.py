"""The topics that batches append to, and direct appends: the append to a topic commits a batch.

A topic that only a function named is recorded: a Delta name does not reveal the topic's name.

A batch of many records, all for one topic, is committed directly. The log would hold each record a second time: it
announces the batch instead. If progress does not report an announced batch as folded, recovery looks in the topic's
table whether the append was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.plan.names import topic_table
from kaspr_delta.storage.layout import TOPIC, TOPICS
from kaspr_delta.storage.system_tables import arrow_rows
from kaspr_delta.storage.tables import Tables

_RECORDS, _NOTHING = "records", "nothing"


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


class CommitIntent(NamedTuple):
    """The announcement: the topic that a batch is about to append to, and the newest version of its table by then."""

    topic: str
    version: int


@dataclass(frozen=True, slots=True)
class DirectAppend:
    """The effects of a batch as records of one topic. If an event fails, computing ``records`` fails."""

    topic: str
    records: DataFrame

    def announcement(self, delta: Tables, spark: SparkSession) -> CommitIntent:
        """Return the announcement that the log must hold before the append."""
        return CommitIntent(self.topic, delta.newest(spark, topic_table(self.topic)).version)

    def commit(self, delta: Tables, batch: BatchId) -> None:
        """Append the records. After an error of Spark the batch may be committed or not: ask ``announced_records``."""
        append_to_topic(delta, SparkRows(self.records), self.topic, batch, note=_note(batch, _RECORDS))


def announced_records(delta: Tables, spark: SparkSession, announced: CommitIntent, batch: BatchId) -> int | None:
    """The number of records that an announced batch has appended; None if it has not, and can no longer do so.

    Makes an empty append under the batch's transaction: it is skipped if the records are there, and keeps them out if
    they are not.
    """
    table = topic_table(announced.topic)
    records, nothing = _note(batch, _RECORDS), _note(batch, _NOTHING)
    noted = delta.notes(spark, table, announced.version)
    if not noted.keys() & {records, nothing}:
        append_to_topic(delta, SparkRows(delta.read(spark, table).limit(0)), announced.topic, batch, note=nothing)
        noted = delta.notes(spark, table, announced.version)
    # Without either note the history was truncated: the append was made long ago.
    return None if nothing in noted else noted.get(records, 0)


def _note(batch: BatchId, what: str) -> str:
    return f"batch {batch.checkpoint} {batch.number}: {what}"

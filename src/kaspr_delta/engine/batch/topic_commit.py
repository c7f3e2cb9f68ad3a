"""Direct appends: a batch of many records, all for one topic, is committed by its append to that topic.

The log would hold each record a second time. It announces the batch instead. If progress does not report an announced
batch as folded, recovery looks in the topic's table whether the append was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.topics import append_to_topic
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.plan.names import topic_table
from kaspr_delta.storage.tables import Tables

_RECORDS, _NOTHING = "records", "nothing"


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
        """Append the records. After an error of Spark the batch may be committed or not: ask ``appended``."""
        append_to_topic(delta, SparkRows(self.records), self.topic, batch, note=_note(batch, _RECORDS))


def appended(delta: Tables, spark: SparkSession, announced: CommitIntent, batch: BatchId) -> int | None:
    """Return how many records an announced batch has appended; None if it has not, and can no longer do so.

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

"""Batches without effects in the log: many records, all for one topic, are committed by their append to it.

The log would hold each of them a second time. It announces the batch instead, and whoever finds an announcement that
nobody says is done asks the topic's table whether the append was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kaspr_delta.engine.batch.topics import append_to_topic
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.plan.names import topic_table
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kaspr_delta.engine.batch.checkpoint import BatchId

_RECORDS, _NOTHING = "records", "nothing"


class CommitIntent(NamedTuple):
    """The topic that a batch is about to be appended to, and the newest version of its table at that moment."""

    topic: str
    version: int


@dataclass(frozen=True, slots=True)
class DirectAppend:
    """The effects of a batch as records of one topic. To compute them fails where an event fails."""

    topic: str
    records: DataFrame

    def announcement(self, delta: Tables, spark: SparkSession) -> CommitIntent:
        """What the log has to say before the append."""
        return CommitIntent(self.topic, delta.newest(spark, topic_table(self.topic)).version)

    def commit(self, delta: Tables, batch: BatchId) -> None:
        """Append the records. Raises whatever Spark raises; then the batch may be committed or not (``appended``)."""
        append_to_topic(delta, Rows(self.records), self.topic, batch, note=_note(batch, _RECORDS))


def appended(delta: Tables, spark: SparkSession, announced: CommitIntent, batch: BatchId) -> int | None:
    """How many records an announced batch has appended; None if it has not, and from now on cannot.

    An append of nothing under the batch's transaction takes the place of its records, unless they are there.
    """
    table = topic_table(announced.topic)
    records, nothing = _note(batch, _RECORDS), _note(batch, _NOTHING)
    noted = delta.notes(spark, table, announced.version)
    if not noted.keys() & {records, nothing}:
        append_to_topic(delta, Rows(delta.read(spark, table).limit(0)), announced.topic, batch, note=nothing)
        noted = delta.notes(spark, table, announced.version)
    # A history that tells neither is short, and the append was made long ago.
    return None if nothing in noted else noted.get(records, 0)


def _note(batch: BatchId, what: str) -> str:
    return f"batch {batch.checkpoint} {batch.number}: {what}"

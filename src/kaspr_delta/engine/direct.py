"""Batches without effects in the log: many records, all for one topic, are committed by their append to it.

The log would hold each of them a second time. It announces the batch instead, and whoever finds an announcement that
nobody says is done asks the topic's table whether the append was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kaspr_delta.plan.names import topic_table
from kaspr_delta.storage.delta import Delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kaspr_delta.engine.log import BatchId

_RECORDS, _NOTHING = "records", "nothing"


class Announcement(NamedTuple):
    """The topic that a batch is about to be appended to, and the newest version of its table at that moment."""

    topic: str
    version: int


@dataclass(frozen=True, slots=True)
class DirectAppend:
    """The effects of a batch as records of one topic. To compute them fails where an event fails."""

    topic: str
    records: DataFrame

    def announcement(self, delta: Delta, spark: SparkSession) -> Announcement:
        """What the log has to say before the append."""
        return Announcement(self.topic, delta.newest(spark, topic_table(self.topic)).version)

    def commit(self, delta: Delta, batch: BatchId) -> None:
        """Append the records. Raises whatever Spark raises; then the batch may be committed or not (``appended``)."""
        _append(delta, self.records, self.topic, batch, _RECORDS)


def appended(delta: Delta, spark: SparkSession, announced: Announcement, batch: BatchId) -> int | None:
    """How many records an announced batch has appended; None if it has not, and from now on cannot.

    An append of nothing under the batch's transaction takes the place of its records, unless they are there.
    """
    table = topic_table(announced.topic)
    if (found := _found(delta, spark, announced, batch)) is None:
        nothing = delta.read(spark, table).limit(0)
        _append(delta, nothing, announced.topic, batch, _NOTHING)
        found = _found(delta, spark, announced, batch)
    # A history that is as short as that tells no more, and the append was made long ago.
    what, rows = found or (_RECORDS, 0)
    return rows if what == _RECORDS else None


def _found(delta: Delta, spark: SparkSession, announced: Announcement, batch: BatchId) -> tuple[str, int] | None:
    for commit in delta.noted(spark, topic_table(announced.topic), announced.version):
        if commit.note in {_note(batch, what) for what in (_RECORDS, _NOTHING)}:
            return commit.note.rpartition(" ")[2], commit.rows
    return None


def _append(delta: Delta, rows: DataFrame, topic: str, batch: BatchId, what: str) -> None:
    delta.append(rows, topic_table(topic), batch.transaction(f"topic:{topic}"), note=_note(batch, what))


def _note(batch: BatchId, what: str) -> str:
    return f"batch {batch.checkpoint} {batch.number}: {what}"

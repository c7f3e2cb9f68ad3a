"""Handles to write records to topics, and to read topics, changelogs and channels in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.api.given import records_given
from kaspr_delta.api.records import milliseconds, to_effect, to_record
from kaspr_delta.api.table import refuse_made
from kaspr_delta.engine.agent.step import table_write
from kaspr_delta.engine.binding.bound_topics import Endpoint, endpoint_of
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.sequence import offset
from kaspr_delta.engine.rows.typed_columns import as_text
from kaspr_delta.engine.streams.effect import RECORD, SCHEMA, to_arrow
from kaspr_delta.engine.streams.event import moment_of
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.engine.streams.source import changelog_records, emitted, topic_records
from kaspr_delta.errors import UsageError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.bindings import KafkaPlan
from kaspr_delta.plan.definition.joins import JoinPlan
from kaspr_delta.plan.definition.resources import Serializers, TopicPlan
from kaspr_delta.serde.joined_text import JoinedText, json_columns
from kaspr_delta.storage.arrow_types import frame_of
from kaspr_delta.storage.spark.decoded import decoded
from kaspr_delta.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class TopicHandle:
    """A topic. Records are dictionaries with key, value, timestamp (milliseconds), headers and partition."""

    spark: SparkSession
    delta: Tables
    plan: TopicPlan

    def produce(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Append records in one commit, in their order. Returns the number of records.

        Only ``value`` is required; a value of None is a tombstone. If the topic is read from Kafka, the records are
        written to Kafka, and appear on the topic once they are read. Raises UsageError, also for a topic that is read
        from files, and SerializationError, before anything is written.
        """
        elsewhere = self._fed_from()
        topics = Topics({self.plan.name: self.plan.partitions}, self.plan.partitions)
        effects = to_arrow(
            to_effect(record, self.plan.name, self.plan.serializers, topics) for record in records_given(records)
        )
        count = int(effects.num_rows)
        if count:
            rows = pa.Table.from_batches([effects], SCHEMA)
            if elsewhere is None:
                self.delta.append(self.spark, rows.select(RECORD), self.plan.delta_name)
            else:
                elsewhere.write(frame_of(self.spark, rows), "")
        return count

    def records(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The records in order, from the start, at most ``limit``."""
        return [to_record(row, self.plan.serializers) for row in _in_order(self.stored, limit)]

    @property
    def df(self) -> DataFrame:
        """The records: JSON keys and values as typed columns, with types inferred from the records; others as bytes."""
        return _decoded(self.stored, self.plan.serializers)

    @property
    def stored(self) -> DataFrame:
        """The records as they are stored: key and value as bytes, with offset."""
        return topic_records(_appended(self.spark, self.delta, self.plan.delta_name), self.plan.name).drop("arrived")

    def _fed_from(self) -> Endpoint | None:
        """The endpoint to which records have to be written to reach the topic; None for the topic itself."""
        binding = self.plan.binding
        if binding is None or binding.direction == "output":
            return None
        if not isinstance(binding.endpoint, KafkaPlan):
            raise UsageError(f"the records of topic {self.plan.name!r} come {binding.text}: put a file there")
        return endpoint_of(self.delta, self.plan)


@dataclass(frozen=True, slots=True)
class ChangelogHandle:
    """The changelog of a table as a topic. Records that are produced to it are written to the table."""

    spark: SparkSession
    table: KeyedTable
    made_from: str | None = None

    def produce(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Write records to the table in one commit, the last one of each key. Returns the number of records.

        A value of None deletes the row. Raises UsageError, also for a table that is made from another resource, and
        SerializationError, before anything is written.
        """
        plan = self.table.plan
        refuse_made(plan.name, self.made_from)
        topics = Topics({plan.changelog: plan.partitions}, plan.partitions)
        effects = [to_effect(record, plan.changelog, plan.serializers, topics) for record in records_given(records)]
        rows = {
            key: (key, value, None if one.timestamp is None else moment_of(one.timestamp))
            for one in effects
            for key, value in [table_write(one, plan)]
        }
        if rows:
            self.table.put(self.spark, list(rows.values()))
        return len(effects)

    def records(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The changes of the table's rows, commit by commit, from the start, at most ``limit``."""
        return [to_record(row, self.table.plan.serializers) for row in _in_order(self.stored, limit)]

    @property
    def df(self) -> DataFrame:
        """The table's changes as records of a topic, with typed columns as in ``TopicHandle.df``."""
        return _decoded(self.stored, self.table.plan.serializers)

    @property
    def stored(self) -> DataFrame:
        """The table's changes as records of a topic: key and value as bytes, with offset."""
        feed = self.table.delta.changes(self.spark, self.table.plan.delta_name)
        return changelog_records(feed, self.table)


@dataclass(frozen=True, slots=True)
class ChannelHandle:
    """The channel of a join: the records that it emitted, in order, including tombstones (value None)."""

    spark: SparkSession
    delta: Tables
    join: JoinPlan
    application: Plan

    def records(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Emissions in order, from the start, at most ``limit``: key and value ``{"left":…, "right":…}``.

        The key is None in a join of streams, if a record without a key found no match.
        """
        texts = JoinedText.of(self.join, self.application)
        return [
            {
                "key": texts.key(row["key"]),
                "value": texts.value(row) if row["kind"] == "value" else None,
                "timestamp": milliseconds(row["timestamp"]),
                "offset": row["offset"],
            }
            for row in _in_order(self.stored, limit)
        ]

    @property
    def df(self) -> DataFrame:
        """Emissions with decoded columns: key, kind (value or tombstone), left, right, timestamp and offset.

        Types are those of typed tables, or inferred from the emissions. In a tombstone left and right are null.
        """
        return decoded(self._emitted, json_columns(self.join, self.application))

    @property
    def stored(self) -> DataFrame:
        """Emissions as JSON text: key, left, right (all NULL but the key in a tombstone), timestamp, offset."""
        return as_text(self._emitted, self.application.column_types(self.join))

    @property
    def _emitted(self) -> DataFrame:
        records = emitted(_appended(self.spark, self.delta, self.join.log))
        return records.select("key", "kind", "left", "right", "timestamp", offset())


def _appended(spark: SparkSession, delta: Tables, table: str) -> DataFrame:
    """All rows of a topic or channel with their commits, from the table or else from its change feed."""
    rows = delta.appended_rows(spark, table)
    return delta.changes(spark, table) if rows is None else rows


def _decoded(records: DataFrame, serializers: Serializers) -> DataFrame:
    """Records with the JSON of their keys and values as typed columns."""
    columns = serializers.json_columns
    texts = {column: F.col(column).cast("string") for column in columns}
    return decoded(records.withColumns(texts) if texts else records, columns)


def _in_order(records: DataFrame, limit: int | None) -> list[dict[str, Any]]:
    """The rows ordered by offset, at most ``limit``."""
    rows = records.orderBy("offset")
    return [row.asDict() for row in (rows if limit is None else rows.limit(limit)).collect()]

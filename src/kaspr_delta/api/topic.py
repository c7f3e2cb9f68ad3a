"""Handles to write records to topics, and to read topics, changelogs and channels in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kaspr_delta.api.records import milliseconds, records_given, refuse_made, to_effect, to_record
from kaspr_delta.api.wanted import Recorded, Wanted
from kaspr_delta.engine.agent.step import table_write
from kaspr_delta.engine.rows.driver_table import DriverTable
from kaspr_delta.engine.streams.effect import RECORD, SCHEMA, to_arrow
from kaspr_delta.engine.streams.event import for_all_readers
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.errors import UsageError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.bindings import KafkaPlan
from kaspr_delta.plan.definition.joins import JoinPlan
from kaspr_delta.plan.definition.resources import Serializers, TopicPlan
from kaspr_delta.serde.instants import moment_of
from kaspr_delta.serde.joined_text import JoinedText, json_columns, sides_as_text
from kaspr_delta.serde.serializers import encode_key
from kaspr_delta.storage.arrow_types import frame_of
from kaspr_delta.storage.layout import RECORDS, Layout
from kaspr_delta.storage.lazy_session import because
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kaspr_delta.engine.binding.bound_topics import Endpoint


@dataclass(frozen=True, slots=True)
class TopicHandle(Recorded):
    """A topic. Records are dictionaries with key, value, timestamp (milliseconds), headers and partition.

    ``layout`` is that of its table, which the first record or a session creates.
    """

    spark: SparkSession
    delta: Tables
    plan: TopicPlan
    layout: Layout

    def produce(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Append records in one commit, in their order. Returns the number of records.

        Only ``value`` is required; a value of None is a tombstone. If the topic is read from Kafka, the records are
        written to Kafka, and appear on the topic once they are read. Raises UsageError, also for a topic that is read
        from files, and SerializationError, before anything is written.
        """
        is_elsewhere = self._is_fed_from_kafka()
        topics = Topics({self.plan.name: self.plan.partitions}, self.plan.partitions)
        effects = to_arrow(
            to_effect(record, self.plan.name, self.plan.serializers, topics) for record in records_given(records)
        )
        count = int(effects.num_rows)
        if count:
            rows = pa.Table.from_batches([effects], SCHEMA)
            if is_elsewhere:
                because(self.spark, f"it writes to {self.plan.bound.endpoint.text}")
                self._endpoint().write(frame_of(self.spark, rows), "")
            else:
                self.delta.ensure(self.spark, self.plan.delta_name, self.layout)
                self.delta.append(self.spark, rows.select(RECORD), self.plan.delta_name)
        return count

    @property
    def _place(self) -> tuple[SparkSession, Tables, str]:
        return self.spark, self.delta, self.plan.delta_name

    def _stored_key(self, key: Any) -> bytes | None:
        return encode_key(self.plan.serializers.key, key)

    def _read(self, wanted: Wanted) -> list[dict[str, Any]]:
        rows = wanted.read(self.spark, self.delta, self.plan.delta_name, for_all_readers, lambda: self.stored)
        return [to_record(row, self.plan.serializers) for row in rows]

    @property
    def df(self) -> DataFrame:
        """The records: JSON keys and values as typed columns, with types inferred from the records; others as bytes."""
        return _decoded(self.stored, self.plan.serializers)

    @property
    def stored(self) -> DataFrame:
        """The records as they are stored: key and value as bytes, with offset."""
        from kaspr_delta.engine.streams.source import topic_records

        return topic_records(_committed(self.spark, self.delta, self.plan.delta_name), self.plan.name).drop("arrived")

    def _is_fed_from_kafka(self) -> bool:
        """Whether records have to be written to Kafka to reach the topic. Raises UsageError if they come from files."""
        binding = self.plan.binding
        if binding is None or binding.direction == "output":
            return False
        if not isinstance(binding.endpoint, KafkaPlan):
            raise UsageError(f"the records of topic {self.plan.name!r} come {binding.text}: put a file there")
        return True

    def _endpoint(self) -> Endpoint:
        from kaspr_delta.engine.binding.bound_topics import endpoint_of

        return endpoint_of(self.delta, self.plan)


@dataclass(frozen=True, slots=True)
class ChangelogHandle(Recorded):
    """The changelog of a table as a topic: the changes of its rows, commit by commit.

    Records that are produced to it are written to the table.
    """

    table: DriverTable
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
        self.table.put(rows.values())
        return len(effects)

    @property
    def _place(self) -> tuple[SparkSession, Tables, str]:
        return self.table.spark, self.table.delta, self.table.plan.delta_name

    def _stored_key(self, key: Any) -> bytes | None:
        return encode_key(self.table.plan.serializers.key, key)

    def _read(self, wanted: Wanted) -> list[dict[str, Any]]:
        because(self.table.spark, "it reads the changes of a table as records")
        return [to_record(row, self.table.plan.serializers) for row in wanted.in_spark(self.stored)]

    @property
    def df(self) -> DataFrame:
        """The table's changes as records of a topic, with typed columns as in ``TopicHandle.df``."""
        return _decoded(self.stored, self.table.plan.serializers)

    @property
    def stored(self) -> DataFrame:
        """The table's changes as records of a topic: key and value as bytes, with offset."""
        from kaspr_delta.engine.rows.keyed_table import KeyedTable
        from kaspr_delta.engine.streams.source import changelog_records

        feed = self.table.delta.changes(self.table.spark, self.table.plan.delta_name)
        return changelog_records(feed, KeyedTable(self.table.delta, self.table.plan))


@dataclass(frozen=True, slots=True)
class ChannelHandle(Recorded):
    """The channel of a join: the records that it emitted, in order, including tombstones (value None).

    A record has a key and the value ``{"left":…, "right":…}``. The key is None in a join of streams, if a record
    without a key found no match.
    """

    spark: SparkSession
    delta: Tables
    join: JoinPlan
    application: Plan

    @property
    def _place(self) -> tuple[SparkSession, Tables, str]:
        return self.spark, self.delta, self.join.log

    def _stored_key(self, key: Any) -> str:
        return JoinedText.of(self.join, self.application).keys.key(key)

    def _read(self, wanted: Wanted) -> list[dict[str, Any]]:
        texts = JoinedText.of(self.join, self.application)
        return [
            {
                "key": texts.key(row["key"]),
                "value": texts.value(row) if row["kind"] == "value" else None,
                "timestamp": milliseconds(row["timestamp"]),
                "offset": row["offset"],
            }
            for row in wanted.read(self.spark, self.delta, self.join.log, self._as_text, lambda: self.stored)
        ]

    @property
    def df(self) -> DataFrame:
        """Emissions with decoded columns: key, kind (value or tombstone), left, right, timestamp and offset.

        Types are those of typed tables, or inferred from the emissions. In a tombstone left and right are null.
        """
        from kaspr_delta.storage.spark.decoded import decoded

        return decoded(self._emitted, json_columns(self.join, self.application))

    @property
    def stored(self) -> DataFrame:
        """Emissions as JSON text: key, left, right (all NULL but the key in a tombstone), timestamp, offset."""
        from kaspr_delta.engine.rows.typed_columns import as_text

        return as_text(self._emitted, self.application.column_types(self.join))

    @property
    def _emitted(self) -> DataFrame:
        from kaspr_delta.engine.rows.sequence import offset
        from kaspr_delta.engine.streams.source import emitted

        records = emitted(_committed(self.spark, self.delta, self.join.log))
        return records.select("key", "kind", "left", "right", "timestamp", offset())

    def _as_text(self, rows: pa.Table) -> pa.Table:
        """The emissions among rows of the channel's table, with both sides as text."""
        import pyarrow.compute as pc

        rows = rows.filter(pc.is_in(rows["kind"], pa.array(RECORDS)))
        rows = rows.select(["key", "kind", "left", "right", "timestamp", "seq", "_commit_version"])
        return sides_as_text(rows, self.join, self.application)


def _committed(spark: SparkSession, delta: Tables, table: str) -> DataFrame:
    """All rows of a topic or channel with their commits, from the table or else from its change feed."""
    rows = delta.appended_rows(spark, table)
    return delta.changes(spark, table) if rows is None else rows


def _decoded(records: DataFrame, serializers: Serializers) -> DataFrame:
    """Records with the JSON of their keys and values as typed columns."""
    from pyspark.sql import functions as F

    from kaspr_delta.storage.spark.decoded import decoded

    columns = serializers.json_columns
    texts = {column: F.col(column).cast("string") for column in columns}
    return decoded(records.withColumns(texts) if texts else records, columns)

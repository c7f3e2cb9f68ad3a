"""Records of topics or of a join's channel, in one form for all resources that read either.

Pages, retries and ``consume`` read records by themselves, in a folder without Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.sources import NOTHING, source_of_records
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.rows import union_of
from kaspr_delta.engine.rows.sequence import end_of, offset, version_of
from kaspr_delta.engine.rows.typed_columns import as_text
from kaspr_delta.engine.streams.event import ChannelDecoder, Decoder, TopicDecoder
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinPlan
from kaspr_delta.plan.definition.resources import ChannelInput, Serializers, TopicInput
from kaspr_delta.serde.joined_text import JoinedText
from kaspr_delta.spec.ddl import Type
from kaspr_delta.spec.patterns import matching
from kaspr_delta.storage.layout import HEADERS, RECORDS, RETRY_FOR, kind_for
from kaspr_delta.storage.opening import tables_of_system
from kaspr_delta.storage.system_tables import known_topics
from kaspr_delta.storage.tables import Tables

INPUT = {
    "source": "STRING",
    "key": "BINARY",
    "value": "BINARY",
    "headers": HEADERS,
    "timestamp": "TIMESTAMP",
    "partition": "INT",
    "offset": "BIGINT",
    "arrived": "TIMESTAMP",
}
"""The columns of InputRecord, and ``arrived``: the time of its commit, NULL where only rows were read."""


@dataclass(frozen=True, slots=True)
class Source:
    """The records that a resource reads. A *position* is the offset of the last record read of a topic or channel.

    ``reader`` is the reading resource, as ``kind/name``: records that a retry sent only to another reader are skipped.
    """

    delta: Tables
    read: TopicInput | ChannelInput
    application: Plan
    reader: str
    # Whether records are read from the existing rows, not from the change feed.
    from_rows: bool = False

    def names(self, spark: SparkSession) -> tuple[str, ...]:
        """The topics, or the channel, that are read now, in order."""
        if isinstance(self.read, ChannelInput):
            return (self.read.channel,)
        if self.read.pattern is None:
            return self.read.topics
        named = {topic.name for topic in self.application.topics} | known_topics(tables_of_system(spark, self.delta))
        return matching(self.read.pattern, named)

    def positions(self, spark: SparkSession, done: Mapping[str, int]) -> dict[str, int]:
        """The positions at which a new checkpoint begins: where the one before stopped, else those of a new reader."""

        def first(name: str) -> int:
            return NOTHING if self.read.start == "earliest" else end_of(self.newest(spark, name))

        return {name: done[name] if name in done else first(name) for name in self.names(spark)}

    def table(self, name: str) -> str:
        """The Delta table that holds a topic or channel."""
        return source_of_records(self.application, self.read, name).table

    def unread(self, spark: SparkSession, after: Mapping[str, int]) -> Unread | None:
        """The records after some positions, without the change feed, which may not reach back to them.

        None if all positions are at the ends of the newest versions, or if only the change feed has the records.
        """
        upto = {name: end_of(self.newest(spark, name)) for name in after}
        tracked = all(self.delta.appended_rows(spark, self.table(name)) is not None for name in after)
        if not tracked or upto == after:
            return None
        source = replace(self, from_rows=True)
        return Unread(source, source.between(spark, after, upto), upto)

    def newest(self, spark: SparkSession, name: str) -> int:
        return self.delta.newest(spark, self.table(name)).version

    def stream(self, spark: SparkSession, positions: Mapping[str, int], limit: str | None = None) -> DataFrame:
        """The records after these positions, as a stream of rows of InputRecord."""
        # A continued stream began at the version of the last record read. That version may be gone where a new stream
        # begins: it begins at the first version that may have later records.
        ahead = 0 if self.delta.namespace.streams_go_on else 1
        feeds = {
            name: self.delta.stream(spark, self.table(name), version_of(position + ahead), limit)
            for name, position in positions.items()
        }
        return self._records(feeds, positions)

    def between(self, spark: SparkSession, after: Mapping[str, int], upto: Mapping[str, int]) -> DataFrame:
        """The records after positions ``after``, up to and with ``upto``, by source."""
        positions = {name: after.get(name, NOTHING) for name in upto}
        behind = {name: position for name, position in positions.items() if position < upto[name]}
        feeds = {name: self._feed(spark, name, position, upto[name]) for name, position in behind.items()}
        wanted = ((F.col("source") == name) & (F.col("offset") <= upto[name]) for name in behind)
        return self._records(feeds, behind).where(reduce(or_, wanted))

    def _feed(self, spark: SparkSession, name: str, after: int, upto: int) -> DataFrame:
        table = self.table(name)
        if self.from_rows and (rows := self.delta.appended_rows(spark, table)) is not None:
            return rows
        return self.delta.changes(spark, table, version_of(after + 1), version_of(upto))

    @property
    def serializers(self) -> Serializers:
        """The serializers of keys and values. Values of a channel are JSON objects."""
        if isinstance(self.read, TopicInput):
            return self.read.serializers
        return Serializers(self._join(self.read).spelling.key, "json")

    def decoder(self) -> Decoder:
        if isinstance(self.read, TopicInput):
            return TopicDecoder(self.read.serializers)
        return ChannelDecoder(JoinedText.of(self._join(self.read), self.application))

    def _join(self, channel: ChannelInput) -> JoinPlan:
        join = self.application.join(channel.join)
        if join is None:
            msg = f"channel {channel.channel!r} is read, and no join writes it"
            raise LookupError(msg)
        return join

    def _records(self, feeds: Mapping[str, DataFrame], after: Mapping[str, int]) -> DataFrame:
        # Sorted: the order of the topics is part of the checkpoint.
        return union_of(self._of(name, feeds[name]).where(F.col("offset") > after[name]) for name in sorted(feeds))

    def _of(self, name: str, feed: DataFrame) -> DataFrame:
        if isinstance(self.read, ChannelInput):
            types = self.application.column_types(self._join(self.read))
            return channel_records(feed, self.read, self.reader, self.application.default_partitions, types)
        table = self.application.changelog(name)
        if table is not None:
            return changelog_records(feed, KeyedTable(self.delta, table))
        return topic_records(feed, name, self.reader)


class Unread(NamedTuple):
    """Records that are read from rows, the source from which they can be read again, and the positions after them."""

    source: Source
    records: DataFrame
    upto: Mapping[str, int]


def topic_records(feed: DataFrame, topic: str, reader: str | None = None) -> DataFrame:
    """Return a topic's change feed as rows of InputRecord, with the commit time in ``arrived``.

    A record that a retry sent to one reader is returned only for that ``reader``, without its mark.
    """
    appended = feed.where(F.col("_change_type") == "insert")  # a deletion by retention is no record
    marked = _has("headers.key", F.lit(RETRY_FOR))
    mark = F.struct(F.lit(RETRY_FOR).alias("key"), F.lit(reader).cast("binary").alias("value"))
    mine = F.lit(False) if reader is None else _has("headers", mark)
    appended = appended.where(~marked | mine)
    headers = F.when(marked, F.filter("headers", lambda header: header["key"] != RETRY_FOR)).otherwise(F.col("headers"))
    return _input(appended, topic, F.col("key"), F.col("value"), F.col("timestamp"), F.col("partition"), headers)


def channel_records(
    feed: DataFrame,
    channel: ChannelInput,
    reader: str,
    partitions: int,
    types: tuple[Type | None, Type | None],
) -> DataFrame:
    """Return a channel's change feed as rows of InputRecord: the value is JSON ``{"left": text, "right": text}``.

    ``types`` are the types of its columns left and right, None for text. ``reader`` is as in ``topic_records``.
    """
    kinds = RECORDS if channel.tombstones else RECORDS[:1]
    mine = (*kinds, *(kind_for(kind, reader) for kind in kinds))
    records = as_text(emitted(feed, mine), types)
    pair = F.to_json(F.struct("left", "right"), {"ignoreNullFields": "false"})
    key, value = F.encode("key", "UTF-8"), F.encode(F.when(F.col("kind").startswith("value"), pair), "UTF-8")
    return _input(records, channel.channel, key, value, F.col("timestamp"), partition_of(key, partitions))


def emitted(feed: DataFrame, kinds: Sequence[str] = RECORDS) -> DataFrame:
    """The rows of a channel's change feed that are records of these kinds."""
    return feed.where((F.col("_change_type") == "insert") & F.col("kind").isin(*kinds))


def changelog_records(feed: DataFrame, table: KeyedTable) -> DataFrame:
    """Return a table's change feed as rows of InputRecord: the new row, or a tombstone.

    The rows of one commit have no order of their own. If a row was deleted and inserted, the tombstone comes first.
    """
    changes = feed.where(F.col("_change_type") != "update_preimage")
    deleted = F.col("_change_type") == "delete"
    typed = table.plan.typed is not None
    key, value = (table.key, table.value) if typed else (F.col("key"), F.col("value"))
    key, value = key.cast("binary"), value.cast("binary")
    order = F.xxhash64(key).bitwiseAND(F.lit((1 << 33) - 1)) * 2 + F.when(deleted, 0).otherwise(1)
    timestamp = F.when(deleted, F.col("_commit_timestamp")).otherwise(table.timestamp)
    rows, partition = changes.withColumn("seq", order), partition_of(key, table.plan.partitions)
    return _input(rows, table.plan.changelog, key, F.when(~deleted, value), timestamp, partition)


def _input(  # noqa: PLR0913, PLR0917  the columns of INPUT
    feed: DataFrame,
    source: str,
    key: Column,
    value: Column,
    timestamp: Column,
    partition: Column,
    headers: Column | None = None,
) -> DataFrame:
    """The rows of a change feed as rows of INPUT."""
    return feed.select(
        F.lit(source).alias("source"),
        key.alias("key"),
        value.alias("value"),
        (F.lit(None).cast(HEADERS) if headers is None else headers).alias("headers"),
        timestamp.alias("timestamp"),
        partition.alias("partition"),
        offset(),
        F.col("_commit_timestamp").alias("arrived"),
    )


def _has(array: str, item: Column) -> Column:
    """Whether an array has an item. Unlike ``exists`` it lets Spark generate code for the whole scan."""
    return F.coalesce(F.array_contains(array, item), F.lit(False))


def partition_of(key: Column, partitions: int) -> Column:
    """The partition of a key, given as bytes."""
    # Records without a key, which joins of streams may have, are in the first partition.
    return F.coalesce(F.pmod(F.crc32(key), F.lit(partitions)), F.lit(0)).cast("int").alias("partition")

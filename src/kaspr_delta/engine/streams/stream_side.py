"""A stream as one side of a join: its records as text, with the key to look up."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.sequence import end_of
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.streams.arrived import arrived_records
from kaspr_delta.engine.streams.event import Decoder, InputRecord, JoinedValue, records_of
from kaspr_delta.engine.streams.output import partition_in
from kaspr_delta.engine.streams.selector import Selector, problem
from kaspr_delta.engine.streams.source import Source
from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import StreamPlan
from kaspr_delta.plan.definition.resources import ChannelInput
from kaspr_delta.serde.instants import microseconds
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.arrow_types import arrow_schema, batch_of
from kaspr_delta.storage.layout import PROBLEM
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A record as joins and aggregations take it. `problem` is NULL if nothing is wrong with it. An `unreadable` record only
# makes a dead letter; joins take other records with a problem too, without a key to look up.
RECORD = (
    "source STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key STRING, value STRING, look_up STRING,"
    f" problem {PROBLEM}, unreadable BOOLEAN, arrived TIMESTAMP"
)
SCHEMA = arrow_schema(RECORD)
_READ = pa.schema(list(SCHEMA)[:-1])


class _Read(NamedTuple):
    """A row of RECORD, without ``arrived``."""

    source: str
    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    look_up: str | None
    problem: dict[str, str | None] | None = None
    unreadable: bool = False


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """Converts rows of InputRecord to rows of RECORD. Without a selector, ``look_up`` is the record's own key.

    ``keys`` spells that key as the other table does; None: as the record does. ``partitions`` repartitions the records
    by ``look_up`` over so many partitions; None keeps their partitions.
    """

    decoder: Decoder
    text: TableText
    selector: Selector | None
    partitions: int | None
    keys: TableText | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch_of([self._read(record) for record in records_of(batch)], _READ)
            yield rows.append_column("arrived", batch.column("arrived").cast(SCHEMA.field("arrived").type))

    def _read(self, record: InputRecord) -> _Read:
        # SQL may have written a record without a partition or time.
        at = microseconds(datetime.now(timezone.utc)) if record.timestamp is None else record.timestamp
        source, offset, partition = record.source, record.offset, record.partition or 0
        try:
            event_key, event_value = self.decoder(record)
            key = None if event_key is None else self.text.key(event_key)
            value = self.text.value(_plain(event_value))
            own = key if key is None or self.keys is None or self.selector else self.keys.key(event_key)
        except SerializationError as error:
            unreadable = problem("record cannot be read", str(error), _readable(record.value))
            text = _readable(record.key)
            return _Read(source, partition, offset, at, text, None, None, unreadable, unreadable=True)
        if self.selector is None:
            return _Read(source, self._partition(partition, key, self.text), offset, at, key, value, own)
        if value is None:  # the selector needs a value
            return _Read(source, partition, offset, at, key, None, None)
        look_up, failure = self.selector(event_value, event_key, value)
        if failure is not None:
            return _Read(source, partition, offset, at, key, value, None, failure)
        partition = self._partition(partition, look_up, self.selector.table)
        return _Read(source, partition, offset, at, key, value, look_up)

    def _partition(self, own: int, key: str | None, spelled: TableText) -> int:
        """The partition that a topic has for a key; the record's own one unless records are repartitioned."""
        if self.partitions is None:
            return own
        if key is None:
            return partition_in(self.partitions, None)
        data = base64.b64decode(key) if spelled.serializers.key == "raw" else key.encode()
        return partition_in(self.partitions, data)


@dataclass(frozen=True, slots=True)
class StreamSide:
    """The records of a topic or channel, for the join or aggregation that ``reader`` names, as ``kind/name``."""

    delta: Tables
    plan: StreamPlan
    application: Plan
    reader: str

    @property
    def text(self) -> TableText:
        """The spelling of the records' keys and values as text."""
        return TableText(self.source.serializers)

    @property
    def source(self) -> Source:
        return Source(self.delta, self.plan.input, self.application, self.reader)

    def stream(self, spark: SparkSession, position: int) -> DataFrame:
        return self.source.stream(spark, {self.plan.name: position})

    def first_position(self, spark: SparkSession, done: Mapping[str, int]) -> int:
        """The position at which a new checkpoint begins (see ``Source.positions``)."""
        return self.source.positions(spark, done)[self.plan.name]

    def newest(self, spark: SparkSession) -> int:
        return self.source.newest(spark, self.plan.name)

    def waits(self, spark: SparkSession, position: int) -> bool:
        newest = self.newest(spark)
        if end_of(newest) <= position:
            return False
        unread = self.between(spark, position, newest)
        return unread.max_rows > 0 if isinstance(unread, LocalRows) else not unread.df.isEmpty()

    def between(self, spark: SparkSession, position: int, version: int) -> Rows:
        """The records after a position, up to and with a version of that table, which must not precede the position.

        On the driver if they are few, and no Spark job is needed.
        """
        name, upto = self.plan.name, end_of(version)
        few = self.arrived(spark, position, upto)
        return SparkRows(self.source.between(spark, {name: position}, {name: upto})) if few is None else few

    def arrived(self, spark: SparkSession, position: int, upto: int) -> LocalRows | None:
        """The records after a position, up to and with another one; None if only Spark reads them, or if many."""
        name, most = self.plan.name, self.delta.limits.few
        found = arrived_records(self.source, {name: position}, {name: upto}, most)
        return None if found is None else LocalRows(spark, found)

    def reading(self, selector: Selector | None = None, keys: TableText | None = None) -> ReadRecords:
        """Return the conversion to rows of RECORD. The reader sets the number of partitions of a channel."""
        spread = self.plan.repartitioned or isinstance(self.plan.input, ChannelInput)
        partitions = self.plan.partitions if spread else None
        return ReadRecords(self.source.decoder(), self.text, selector, partitions, keys)

    def read(self, records: Rows, selector: Selector | None = None, keys: TableText | None = None) -> Rows:
        return records.map(self.reading(selector, keys), RECORD)


def reached(records: Rows) -> dict[str, int]:
    """The last offset of each topic or channel among rows of InputRecord or RECORD."""
    last = records.select("source", "offset").newest(("source",), ("offset",)).collect()
    return dict(zip(last["source"].to_pylist(), last["offset"].to_pylist(), strict=True))


def _plain(value: Any) -> Any:
    """A value for JSON: bytes in a channel's pairs become base64, as in a join's result (see ``KeyedTable``)."""
    if not isinstance(value, JoinedValue):
        return value
    return {side: base64.b64encode(part).decode() if isinstance(part, bytes) else part for side, part in value.items()}


def _readable(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")

"""The versions of a table's rows.

A stream-table join sees the table as it is when the record arrives. If one batch has both changes of the table and
records of the stream, they are merged by the times of their heads, each side in the order in which it arrived. Kafka
Streams chooses in the same way between the buffers of its inputs. The *stream time* of a change or record is the
greatest time so far of its partition in this batch: a record comes after all changes with no greater stream time.

A row that no event wrote has the time of its writing (``write_time``), and a deletion has no time at all. Such changes
keep the order of arrival: a record sees them if it was committed after them.
"""

from __future__ import annotations

import base64

import narwhals as nw
import pyarrow as pa
from pyspark.sql import SparkSession

from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.rows import Rows, ValueFunction, exists, none_like
from kaspr_delta.engine.rows.value_functions import EVENT_TIME
from kaspr_delta.engine.streams.output import partition_in
from kaspr_delta.engine.streams.source import partition_of

VERSION = ("order", "since", "committed", "value", "timestamp")
"""The columns of a version, beside ``key``.

A key has the ``value`` (NULL: no row) from the stream time ``since`` on, or from the commit time ``committed`` on (both
NULL: from before the batch). Of several, the last in ``order`` counts.
"""
# The ``order`` of a row's version from before the batch: it precedes all changes.
_BEFORE = nw.lit(-1, nw.Int64)
_IS_BEFORE = nw.col("order") == _BEFORE


def newest_rows(table: KeyedTable, spark: SparkSession, version: int, keys: Rows | None, *, few: bool = False) -> Rows:
    """The current version of every row, as if it had always existed: ``key`` and VERSION.

    ``keys`` and ``few`` are those of ``live_rows``.
    """
    return _always(table.with_text_values(table.live_rows(spark, version, keys, few=few)))


def versions(table: KeyedTable, spark: SparkSession, after: int, upto: int, keys: Rows | None) -> Rows:
    """The versions that rows had after version ``after`` of the table, and got up to ``upto``: ``key`` and VERSION.

    ``keys`` restricts the rows to the keys in its column ``key``.
    """
    unchanged = newest_rows(table, spark, upto, keys)
    if upto <= after:
        return unchanged
    changed = changed_rows(table, spark, after, upto)
    changed = changed if keys is None else changed.join(keys.select("key"), "key", "left_semi")
    return unchanged.join(changed, "key", "left_anti").union(changed)


def changed_rows(table: KeyedTable, spark: SparkSession, after: int, upto: int) -> Rows:
    """As ``versions``, for the changed rows only."""
    rows = table.changes(spark, after, upto)
    rows = rows.with_columns(value=nw.when(table.has_row).then(nw.col("value")), earlier=nw.col("version") * -1)
    rows = rows.with_columns(is_old=~nw.col("is_new"))
    # Of several rows of one key the newest counts, as in live rows.
    were = table.greatest(rows, ("key",), "earlier", "is_old").filter(nw.col("is_old"))
    became = table.greatest(rows, ("key", "version"), "is_new")
    became = became.with_columns(
        value=nw.when(nw.col("is_new")).then(nw.col("value")),
        timestamp=nw.when(nw.col("is_new")).then(nw.col("timestamp")),
    )
    became = became.derive("partition", _partition(table), "key").derive("event", EVENT_TIME, "timestamp")
    became = became.so_far("stream_time", "event", ("partition",), ("version", "event", "key"))
    by_event = exists("event")
    became = table.with_text_values(became).select(
        "key",
        nw.col("version").alias("order"),
        nw.when(by_event).then(nw.col("stream_time")).alias("since"),
        nw.when(~by_event).then(nw.col("at")).alias("committed"),
        "value",
        nw.col("event").alias("timestamp"),
    )
    return _always(table.with_text_values(were)).union(became)


def in_their_own_time(rows: Rows) -> Rows:
    """Make versions from before the batch valid from the time of their event, or of their writing, on."""
    rows = rows.derive("event", EVENT_TIME, "timestamp")
    written = nw.when(~exists("event")).then(nw.col("timestamp"))
    return rows.with_columns(
        since=nw.when(_IS_BEFORE).then(nw.col("event")).otherwise(nw.col("since")),
        committed=nw.when(_IS_BEFORE).then(written).otherwise(nw.col("committed")),
    ).drop("event")


def _always(rows: Rows) -> Rows:
    """Rows, with value and timestamp, as versions from before a batch."""
    never = none_like("timestamp")
    return rows.select("key", _BEFORE.alias("order"), never.alias("since"), never.alias("committed"), *VERSION[3:])


def _partition(table: KeyedTable) -> ValueFunction:
    """The partition of a key of a table, as on its changelog."""
    most, raw = table.plan.partitions, table.has_raw_keys

    def of(key: str | None) -> int:
        return partition_in(most, None if key is None else base64.b64decode(key) if raw else key.encode())

    return ValueFunction(
        lambda key: partition_of(table.as_bytes(key), most),
        lambda keys: pa.array(map(of, keys.to_pylist()), pa.int32()),
    )

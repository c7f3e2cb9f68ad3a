"""The versions of a table's rows, and the version that a record of a stream sees.

A stream-table join sees the table as it is when the record arrives. If one batch has both changes of the table and
records of the stream, they are merged by the times of their heads, each side in the order in which it arrived. Kafka
Streams chooses in the same way between the buffers of its inputs. The *stream time* of a change or record is the
greatest time so far of its partition in this batch: a record comes after all changes with no greater stream time.

A row that no event wrote has the time of its writing (``write_time``), and a deletion has no time at all. Such changes
keep the order of arrival: a record sees them if it was committed after them.
"""

from __future__ import annotations

import narwhals as nw
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.rows.value_functions import event_time
from kaspr_delta.engine.streams.source import partition_of

# The ``order`` of a row's version from before the batch: it precedes all changes.
_BEFORE = -1


def newest_rows(table: KeyedTable, spark: SparkSession, version: int, keys: Rows | None) -> DataFrame:
    """The current version of every row, as if it had always existed. Columns as in ``versions``."""
    return table.with_text_values(table.live_rows(spark, version, keys)).df.select("key", *_before())


def versions(table: KeyedTable, spark: SparkSession, after: int, upto: int, keys: Rows | None) -> DataFrame:
    """The versions that rows had after version ``after`` of the table, and got up to ``upto``.

    Columns key, order, since, committed, value, timestamp. A key has the ``value`` (NULL: no row) from the stream time
    ``since`` on, or from the commit time ``committed`` on (both NULL: from before the batch). Of several, the last in
    ``order`` counts. ``keys`` restricts the rows to the keys in its column ``key``.
    """
    unchanged = newest_rows(table, spark, upto, keys)
    if upto <= after:
        return unchanged
    changed = changed_rows(table, spark, after, upto)
    changed = changed if keys is None else changed.join(keys.df.select("key"), "key", "left_semi")
    return unchanged.join(changed, "key", "left_anti").unionByName(changed)


def changed_rows(table: KeyedTable, spark: SparkSession, after: int, upto: int) -> DataFrame:
    """As ``versions``, for the changed rows only."""
    changed = _changed(table, spark, after, upto)
    were = changed.groupBy("key").agg(F.min_by("was", "version").alias("was"))
    were = were.select("key", "was.*").select("key", *_before())
    became = changed.select(
        "key", F.col("version").alias("order"), "since", "committed", "became.value", "became.timestamp"
    )
    return were.unionByName(became)


def by_key(rows: DataFrame, *also: str) -> DataFrame:
    """All versions of a key in one row: columns key, versions, an array of structs; ``also`` names further fields."""
    version = F.struct("order", "since", "committed", "value", "timestamp", *also)
    return rows.groupBy("key").agg(F.sort_array(F.collect_list(version)).alias("versions"))


def seen(among: Column) -> Column:
    """The one of these versions that a record sees (columns stream_time, arrived): a struct, NULL if there is none."""

    def is_seen(version: Column) -> Column:
        in_time = version["since"].isNull() | (version["since"] <= F.col("stream_time"))
        return in_time & (version["committed"].isNull() | (version["committed"] <= F.col("arrived")))

    return F.try_element_at(F.filter(among, is_seen), F.lit(-1))


def stream_time_in(partition: tuple[str, ...], *order: str | Column) -> Column:
    """The greatest ``timestamp`` so far in a partition."""
    so_far = Window.partitionBy(*partition).orderBy(*order).rowsBetween(Window.unboundedPreceding, 0)
    return F.max("timestamp").over(so_far)


def _changed(table: KeyedTable, spark: SparkSession, after: int, upto: int) -> DataFrame:
    """Per key and commit, the row before and after: columns key, version, was, became, since, committed, and others."""
    feed = table.delta.changes(spark, table.plan.delta_name, after + 1, upto)
    rows = feed.select(
        table.key,
        table.row,
        table.timestamp,
        F.col("_change_type").isin("insert", "update_postimage").alias("is_new"),
        F.col("_commit_version").alias("version"),
        F.col("_commit_timestamp").alias("at"),
    )
    rows = SparkRows(rows).with_columns(value=nw.when(table.has_row).then(nw.col("value"))).df
    # Of several rows of one key the newest counts, as in live rows.
    commits = rows.groupBy("key", "version").agg(
        table.greatest(~F.col("is_new")).alias("was"),
        table.greatest(F.col("is_new")).alias("became"),
        F.max("at").alias("at"),
    )
    commits = commits.withColumns({name: _as_text(table, name) for name in ("was", "became")})
    partition = partition_of(table.as_bytes(F.col("key")), table.plan.partitions)
    timed = commits.withColumns({"partition": partition, "timestamp": event_time(F.col("became.timestamp"))})
    by_event = F.col("timestamp").isNotNull()
    stream_time = stream_time_in(("partition",), "version", "timestamp", "key")
    return timed.withColumns({"since": F.when(by_event, stream_time), "committed": F.when(~by_event, F.col("at"))})


def _as_text(table: KeyedTable, row: str) -> Column:
    value = table.text_form.column(F.col(f"{row}.value")).alias("value")
    return F.when(F.col(row).isNotNull(), F.struct(F.col(f"{row}.timestamp").alias("timestamp"), value))


def in_their_own_time(rows: DataFrame) -> DataFrame:
    """Make versions from before the batch valid from the time of their event, or of their writing, on."""
    own, event = F.col("timestamp"), event_time(F.col("timestamp"))
    times = {"since": F.coalesce("since", event), "committed": F.coalesce("committed", F.when(event.isNull(), own))}
    return rows.withColumns(
        {name: F.when(F.col("order") == _BEFORE, time).otherwise(F.col(name)) for name, time in times.items()}
    )


def _before() -> tuple[Column, ...]:
    """The columns that make rows, with value and timestamp, versions from before a batch."""
    order, never = F.lit(_BEFORE).cast("bigint").alias("order"), F.lit(None).cast("timestamp")
    return order, never.alias("since"), never.alias("committed"), F.col("value"), F.col("timestamp")

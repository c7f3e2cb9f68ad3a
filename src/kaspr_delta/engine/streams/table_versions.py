"""What the rows of a table were when a record of a stream met them.

A stream-table join sees the table as it is when the record arrives. Where one batch brings changes of the table and
records of the stream, they are merged by the times of their heads, each side in the order in which it arrived, as Kafka
Streams chooses between the buffers of its inputs. With the greatest time so far on its side as its *place*, a record
comes after every change whose place is not greater.

A row that somebody wrote, and no event, has the time of its writing: no whole millisecond, as the times of events are.
A deletion has no time at all. Both stand where they arrived: a record sees them if it was committed after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.streams.source import partition_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# The order of what a row was before the batch: it comes before all changes.
_BEFORE = -1
_NEVER = "CAST(NULL AS TIMESTAMP)"


def newest_rows(table: KeyedTable, spark: SparkSession, version: int, keys: DataFrame | None) -> DataFrame:
    """Every row as it is, as if it had always been so. Columns as those of ``versions``."""
    return table.live_rows(spark, version, keys).select("key", *_before(_NEVER, _NEVER))


def rows_by_their_time(table: KeyedTable, spark: SparkSession, version: int, keys: DataFrame | None) -> DataFrame:
    """Every row as it is, from its event's time on: those of a table of which nothing was seen before."""
    return in_their_own_time(newest_rows(table, spark, version, keys))


def versions(table: KeyedTable, spark: SparkSession, after: int, upto: int, keys: DataFrame | None) -> DataFrame:
    """What rows were after one version of the table and became up to another.

    Columns key, order, since, committed, value, timestamp: the value (NULL: no row) a key has from a place on, or from
    the time of a commit (both NULL: from before), the later in ``order`` counting. ``keys`` restricts them to those in
    its column ``key``.
    """
    unchanged = newest_rows(table, spark, upto, keys)
    if upto <= after:
        return unchanged
    changed = changed_rows(table, spark, after, upto)
    changed = changed if keys is None else changed.join(keys.select("key"), "key", "left_semi")
    return unchanged.join(changed, "key", "left_anti").unionByName(changed)


def changed_rows(table: KeyedTable, spark: SparkSession, after: int, upto: int) -> DataFrame:
    """The versions of those rows that changed."""
    changed = _changed(table, spark, after, upto)
    were = changed.groupBy("key").agg(F.min_by("was", "version").alias("was"))
    were = were.select("key", "was.*").select("key", *_before(_NEVER, _NEVER))
    became = changed.select(
        "key", F.col("version").alias("order"), "since", "committed", "became.value", "became.timestamp"
    )
    return were.unionByName(became)


def by_key(rows: DataFrame, *also: str) -> DataFrame:
    """All versions of a key in one row: columns key, versions, an array of structs; ``also`` names further fields."""
    version = F.struct("order", "since", "committed", "value", "timestamp", *also)
    return rows.groupBy("key").agg(F.sort_array(F.collect_list(version)).alias("versions"))


def seen(among: Column) -> Column:
    """Of some versions the one that a record sees (columns place, arrived): a struct, NULL where there is none."""

    def is_seen(version: Column) -> Column:
        in_time = version["since"].isNull() | (version["since"] <= F.col("place"))
        return in_time & (version["committed"].isNull() | (version["committed"] <= F.col("arrived")))

    return F.try_element_at(F.filter(among, is_seen), F.lit(-1))


def place_in(partition: tuple[str, ...], *order: str | Column) -> Column:
    """The greatest ``timestamp`` so far in a partition."""
    so_far = Window.partitionBy(*partition).orderBy(*order).rowsBetween(Window.unboundedPreceding, 0)
    return F.max("timestamp").over(so_far)


def _changed(table: KeyedTable, spark: SparkSession, after: int, upto: int) -> DataFrame:
    """Per key and commit what the row was and became: columns key, version, was, became, since."""
    feed = table.delta.changes(spark, table.plan.delta_name, after + 1, upto)
    rows = feed.select(
        table.key,
        table.row,
        table.timestamp,
        F.col("_change_type").isin("insert", "update_postimage").alias("is_new"),
        F.col("_commit_version").alias("version"),
        F.col("_commit_timestamp").alias("at"),
    )
    if table.has_json_text:  # as among live rows, JSON's null is no value
        rows = rows.withColumn("value", F.nullif(F.col("value"), F.lit("null")))
    # Of several rows of one key the newest counts, as among live rows.
    commits = rows.groupBy("key", "version").agg(
        table.greatest(~F.col("is_new")).alias("was"),
        table.greatest(F.col("is_new")).alias("became"),
        F.max("at").alias("at"),
    )
    commits = commits.withColumns({name: _as_text(table, name) for name in ("was", "became")})
    partition = partition_of(table.as_bytes(F.col("key")), table.plan.partitions)
    timed = commits.withColumns(
        {
            "partition": partition,
            "timestamp": event_time(F.col("became.timestamp")),
        }
    )
    by_event = F.col("timestamp").isNotNull()
    place = place_in(("partition",), "version", "timestamp", "key")
    return timed.withColumns({"since": F.when(by_event, place), "committed": F.when(~by_event, F.col("at"))})


def _as_text(table: KeyedTable, row: str) -> Column:
    value = table.as_text(F.col(f"{row}.value")).alias("value")
    return F.when(F.col(row).isNotNull(), F.struct(F.col(f"{row}.timestamp").alias("timestamp"), value))


def in_their_own_time(rows: DataFrame) -> DataFrame:
    """Versions that come from before, from the time of their events or their writing on."""
    own, event = F.col("timestamp"), event_time(F.col("timestamp"))
    times = {"since": F.coalesce("since", event), "committed": F.coalesce("committed", F.when(event.isNull(), own))}
    return rows.withColumns(
        {name: F.when(F.col("order") == _BEFORE, time).otherwise(F.col(name)) for name, time in times.items()}
    )


def event_time(timestamp: Column) -> Column:
    """The time of the event that wrote a row; NULL where none did."""
    return F.when(F.unix_micros(timestamp) % 1_000 == 0, timestamp)


def _before(since: str, committed: str) -> tuple[Column, ...]:
    """What makes rows, which have a value and a timestamp, versions that come before those of a batch."""
    order = F.lit(_BEFORE).cast("bigint").alias("order")
    return order, F.expr(since).alias("since"), F.expr(committed).alias("committed"), F.col("value"), F.col("timestamp")

"""What the rows of a table were when a record of a stream met them.

A stream-table join sees the table as it is when the record arrives. Where one batch brings changes of the table and
records of the stream, they are merged by the times of their heads, each side in the order in which it arrived, as Kafka
Streams chooses between the buffers of its inputs. With the greatest time so far on its side as its *place*, a record
comes after every change whose place is not greater.

A row that somebody wrote, and no event, has the time of its writing: no whole millisecond, as the times of events are.
A deletion has no time at all. Both stand where they arrived, right behind the event before them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kaspr_delta.engine.live_table import LiveTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# The order of what a row was before the batch: it comes before all changes.
_BEFORE = -1


def newest_rows(table: LiveTable, spark: SparkSession, version: int, keys: DataFrame | None) -> DataFrame:
    """Every row as it is, as if it had always been so. Columns as those of ``versions``."""
    return _versions(table.live_rows(spark, version, keys), F.lit(None).cast("timestamp"))


def rows_by_their_time(table: LiveTable, spark: SparkSession, version: int, keys: DataFrame | None) -> DataFrame:
    """Every row as it is, from its event's time on: those of a table of which nothing was seen before."""
    return _versions(table.live_rows(spark, version, keys), event_time(F.col("timestamp")))


def versions(table: LiveTable, spark: SparkSession, after: int, upto: int, keys: DataFrame | None) -> DataFrame:
    """What rows were after one version of the table and became up to another.

    Columns key, order, since, value, timestamp: the value (NULL: no row) a key has from a place on (NULL: from before),
    the later in ``order`` counting. ``keys`` restricts them to those in its column ``key``.
    """
    unchanged = newest_rows(table, spark, upto, keys)
    if upto <= after:
        return unchanged
    changed = changed_rows(table, spark, after, upto)
    changed = changed if keys is None else changed.join(keys.select("key"), "key", "left_semi")
    return unchanged.join(changed, "key", "left_anti").unionByName(changed)


def changed_rows(table: LiveTable, spark: SparkSession, after: int, upto: int) -> DataFrame:
    """The versions of those rows that changed."""
    changed = _changed(table, spark, after, upto)
    were = changed.groupBy("key").agg(F.min_by("was", "version").alias("was"))
    were = were.select("key", *_before(F.lit(None).cast("timestamp"), F.col("was.value"), F.col("was.timestamp")))
    became = changed.select("key", F.col("version").alias("order"), "since", "became.value", "became.timestamp")
    return were.unionByName(became)


def by_key(rows: DataFrame, *also: str) -> DataFrame:
    """All versions of a key in one row: columns key, versions, an array of structs; ``also`` names further fields."""
    version = F.struct("order", "since", "value", "timestamp", *also)
    return rows.groupBy("key").agg(F.sort_array(F.collect_list(version)).alias("versions"))


def seen_at(place: Column, among: Column) -> Column:
    """Of some versions the one that counts at a place: a struct, NULL where there is none."""
    seen = F.filter(among, lambda version: version["since"].isNull() | (version["since"] <= place))
    return F.try_element_at(seen, F.lit(-1))


def place_in(partition: tuple[str, ...], *order: str | Column) -> Column:
    """The greatest ``timestamp`` so far in a partition."""
    so_far = Window.partitionBy(*partition).orderBy(*order).rowsBetween(Window.unboundedPreceding, 0)
    return F.max("timestamp").over(so_far)


def _changed(table: LiveTable, spark: SparkSession, after: int, upto: int) -> DataFrame:
    """Per key and commit what the row was and became: columns key, version, was, became, since."""
    feed = table.delta.changes(spark, table.plan.delta_name, after + 1, upto)
    rows = feed.select(
        table.key,
        table.value,
        "timestamp",
        F.col("_change_type").isin("insert", "update_postimage").alias("is_new"),
        F.col("_commit_version").alias("version"),
    )
    if table.plan.serializers.value == "json":  # as among live rows, JSON's null is no value
        rows = rows.withColumn("value", F.nullif(F.col("value"), F.lit("null")))
    rows = rows.withColumn("row", F.struct("timestamp", "value"))
    # Of several rows of one key the newest counts, as among live rows.
    commits = rows.groupBy("key", "version").agg(
        F.max(F.when(~F.col("is_new"), F.col("row"))).alias("was"),
        F.max(F.when(F.col("is_new"), F.col("row"))).alias("became"),
    )
    partition = F.pmod(F.crc32(F.col("key").cast("binary")), F.lit(table.plan.partitions))
    timed = commits.withColumns(
        {
            "partition": partition,
            "timestamp": event_time(F.col("became.timestamp")),
        }
    )
    return timed.withColumn("since", place_in(("partition",), "version", "timestamp", "key"))


def event_time(timestamp: Column) -> Column:
    """The time of the event that wrote a row; NULL where none did."""
    return F.when(F.unix_micros(timestamp) % 1_000 == 0, timestamp)


def _versions(rows: DataFrame, since: Column) -> DataFrame:
    return rows.select("key", *_before(since, F.col("value"), F.col("timestamp")))


def _before(since: Column, value: Column, timestamp: Column) -> tuple[Column, ...]:
    order = F.lit(_BEFORE).cast("bigint").alias("order")
    return order, since.alias("since"), value.alias("value"), timestamp.alias("timestamp")

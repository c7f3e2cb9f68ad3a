"""A KasprTable as the engine reads and writes it: live rows as text, whatever the serializers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.plan.definition import SerializerName, TablePlan
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.delta import Commit, Delta

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class LiveTable:
    """One table of the application."""

    delta: Delta
    plan: TablePlan

    @property
    def text(self) -> TableText:
        """How this table spells its keys and values."""
        return TableText(self.plan.serializers)

    @property
    def place(self) -> tuple[str, ...]:
        """The columns that tell one row from another."""
        return ("key", "window_start") if self.plan.window else ("key",)

    @property
    def key(self) -> Column:
        """The key column as text."""
        return F.col("key") if self.plan.joined else _as_text("key", self.plan.serializers.key)

    @property
    def value(self) -> Column:
        """The value column as text. A join's result has two, which are one JSON object here."""
        if self.plan.joined is None:
            return _as_text("value", self.plan.serializers.value)
        left, right = map(_as_json, ("left", "right"), self.plan.joined)
        return F.concat(F.lit('{"left":'), left, F.lit(',"right":'), right, F.lit("}")).alias("value")

    def newest(self, spark: SparkSession) -> Commit:
        """The version to pin for a batch."""
        return self.delta.newest(spark, self.plan.delta_name)

    def feed(self, spark: SparkSession, side: str, after: int) -> DataFrame:
        """The table's change feed after a version, as a stream: which keys were touched, and when.

        Columns side, key, changed_at.
        """
        changes = self.delta.stream_after(spark, self.plan.delta_name, after)
        return changes.select(F.lit(side).alias("side"), self.key, F.col("_commit_timestamp").alias("changed_at"))

    def keys(self, spark: SparkSession, side: str, commit: Commit) -> DataFrame:
        """All keys at a version, as if that commit had touched them. Columns side, key, changed_at."""
        rows = self.delta.read(spark, self.plan.delta_name, commit.version)
        return rows.select(F.lit(side).alias("side"), self.key, F.lit(commit.at).alias("changed_at"))

    def live_rows(self, spark: SparkSession, version: int | None = None, keys: DataFrame | None = None) -> DataFrame:
        """Rows at a version (the newest, when None), one per key: columns key, value, timestamp, copies.

        In a table with windows one per key and window: also window_start and window_end. ``keys`` restricts them to
        those in its column ``key`` (and ``window_start``). Delta has no unique keys: of several rows of one key
        the newest by timestamp counts, then the greatest value, the same choice every time; ``copies`` tells how many
        there were. A NULL value is no row.
        """
        windows = ("window_start", "window_end") if self.plan.window else ()
        rows = self.delta.read(spark, self.plan.delta_name, version).select(self.key, self.value, "timestamp", *windows)
        rows = rows.where(F.col("key").isNotNull() & F.col("value").isNotNull())
        if self.plan.serializers.value == "json":
            rows = rows.where(F.col("value") != "null")
        if keys is not None:
            rows = rows.join(keys.select(*self.place), list(self.place), "left_semi")
        newest = F.max(F.struct("timestamp", "value", *windows[1:]))
        return (
            rows.groupBy(*self.place)
            .agg(newest.alias("row"), F.count("*").alias("copies"))
            .select(
                *self.place,
                *(F.col(f"row.{name}").alias(name) for name in ("value", "timestamp", *windows[1:])),
                "copies",
            )
        )

    def write(self, rows: DataFrame, *, timely: bool = False) -> None:
        """Bring keys to given values: columns key, value (text; NULL deletes), timestamp, one row per key.

        For a table with windows also window_start and stream, one row per key and window. A row that already has the
        value is left alone; where rows are ``timely``, one that has the timestamp as well.
        """
        compare, also = (("value", "timestamp"), ()) if timely else (("value",), ("timestamp",))
        windows = ("window_end", "stream") if self.plan.window else ()
        if self.plan.window is not None:
            rows = rows.withColumn("window_end", _later("window_start", self.plan.window.size))
        stored = rows.select(
            _stored("key", self.plan.serializers.key),
            _stored("value", self.plan.serializers.value),
            "timestamp",
            *self.place[1:],
            *windows,
            F.col("value").isNotNull().alias("keep"),
        )
        table = self.plan.delta_name
        self.delta.upsert(stored, table, on=self.place, compare=compare, also=(*also, *windows), keep="keep")

    def put(self, spark: SparkSession, rows: Iterable[tuple[str, str | None, datetime | None]]) -> None:
        """Write rows that are here: key, value (text; None deletes) and timestamp, each key once."""
        columns = "key STRING, value STRING, timestamp TIMESTAMP"
        self.write(spark.createDataFrame(list(rows), columns).coalesce(1))

    def show(self, spark: SparkSession, source: str, stream: str, after: datetime | None, upto: datetime) -> None:
        """Take over from another Delta table the rows of a stream whose windows end in a span of time."""
        rows = self.delta.read(spark, source).where((F.col("stream") == stream) & (F.col("window_end") <= upto))
        rows = rows if after is None else rows.where(F.col("window_end") > after)
        rows = rows.withColumn("keep", F.expr("true"))
        also = ("timestamp", "window_end", "stream")
        self.delta.upsert(rows, self.plan.delta_name, on=self.place, compare=("value",), also=also, keep="keep")


def state_of(delta: Delta, plan: TablePlan) -> LiveTable:
    """The table that functions read and write: of windows that do not show before they close, another one."""
    return LiveTable(delta, replace(plan, delta_name=plan.state))


def _later(column: str, milliseconds: int) -> Column:
    return F.timestamp_millis(F.unix_millis(column) + milliseconds)


def _as_text(column: str, serializer: SerializerName) -> Column:
    return (F.base64(column) if serializer == "raw" else F.col(column)).alias(column)


def _as_json(column: str, serializer: SerializerName) -> Column:
    """What a column of a join's result holds, as a piece of JSON: bytes are in base64 there."""
    json = F.concat(F.lit('"'), F.col(column), F.lit('"')) if serializer == "raw" else F.col(column)
    return F.coalesce(json, F.lit("null"))


def _stored(column: str, serializer: SerializerName) -> Column:
    return (F.unbase64(column) if serializer == "raw" else F.col(column)).alias(column)

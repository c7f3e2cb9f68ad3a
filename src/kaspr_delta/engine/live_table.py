"""A KasprTable as the engine reads and writes it: live rows as text, whatever the serializers."""

from __future__ import annotations

from dataclasses import dataclass
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
    def key(self) -> Column:
        """The key column as text."""
        return _as_text("key", self.plan.serializers.key)

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

        ``keys`` restricts them to the keys in its column ``key``. Delta has no unique keys: of several rows of one key
        the newest by timestamp counts, then the greatest value, the same choice every time; ``copies`` tells how many
        there were. A NULL value is no row.
        """
        rows = self.delta.read(spark, self.plan.delta_name, version).select(
            self.key, _as_text("value", self.plan.serializers.value), "timestamp"
        )
        rows = rows.where(F.col("key").isNotNull() & F.col("value").isNotNull())
        if self.plan.serializers.value == "json":
            rows = rows.where(F.col("value") != "null")
        if keys is not None:
            rows = rows.join(keys.select("key"), "key", "left_semi")
        newest = F.max(F.struct("timestamp", "value"))
        return (
            rows.groupBy("key")
            .agg(newest.alias("row"), F.count("*").alias("copies"))
            .select("key", F.col("row.value").alias("value"), F.col("row.timestamp").alias("timestamp"), "copies")
        )

    def write(self, rows: DataFrame) -> None:
        """Bring keys to given values: columns key, value (text; NULL deletes), timestamp, one row per key.

        A row that already has the value is left alone.
        """
        stored = rows.select(
            _stored("key", self.plan.serializers.key),
            _stored("value", self.plan.serializers.value),
            "timestamp",
            F.col("value").isNotNull().alias("keep"),
        )
        self.delta.upsert(stored, self.plan.delta_name, compare=("value",), also=("timestamp",), keep="keep")


def _as_text(column: str, serializer: SerializerName) -> Column:
    return (F.base64(column) if serializer == "raw" else F.col(column)).alias(column)


def _stored(column: str, serializer: SerializerName) -> Column:
    return (F.unbase64(column) if serializer == "raw" else F.col(column)).alias(column)

"""The join of a stream with all rows of a table that refer to the record's key (KIP-955), always a left join.

The counterpart of KIP-213's subscriptions is an index of the table's foreign keys, which its change feed maintains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.dead_letters import Renewed
from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.resource import Begun, Fold, Found, kinds_of
from kaspr_delta.engine.joins.stream_table.seen import by_key, seen
from kaspr_delta.engine.joins.stream_table.stream_table import StreamTable, StreamTableState
from kaspr_delta.engine.rows.local_rows import LocalRows, fetched
from kaspr_delta.engine.rows.rows import Rows, exists, union_of
from kaspr_delta.engine.rows.rows_by_key import few_keys
from kaspr_delta.engine.rows.sequence import MOST_TASKS, seq_of_rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.streams.selector import SelectKeys, Selector
from kaspr_delta.engine.streams.table_versions import (
    changed_rows,
    in_their_own_time,
    newest_rows,
)
from kaspr_delta.plan.definition.joins import RightForeignKeyJoinPlan
from kaspr_delta.storage.layout import PROBLEM
from kaspr_delta.storage.tables import Upsert

# Versions of table rows (see `table_versions`), with the keys they refer to.
_REFERRING = (
    "key STRING, `order` BIGINT, since TIMESTAMP, committed TIMESTAMP, value STRING, timestamp TIMESTAMP,"
    f" fk STRING, problem {PROBLEM}"
)
# Columns that only results have, and columns that only index rows have: a batch may hold only one of the two kinds.
_OF_EITHER = (
    "left STRING, right STRING, partition INT, `offset` BIGINT, `row` STRING, id STRING, look_up STRING, live BOOLEAN"
)


class RightForeignKeyJoin(StreamTable[RightForeignKeyJoinPlan]):
    """One result per record and row that refers to it; one without a right side if no row refers to it."""

    @property
    def renewed(self) -> Renewed:
        """The dead letters of table rows: a new checkpoint rebuilds the index."""
        return Renewed((self.plan.right,))

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        """Index the key that each row of the table refers to, and remove index rows that refer to nothing any more."""
        began, positions = self.start(spark, state)
        versions = fetched(newest_rows(self.right, spark, began.table, None), self.delta.limits.few)
        rows = self._referring(versions)
        index = self.delta.read(spark, self.plan.index)
        gone = index.select(F.col("id").alias("key")).join(rows.df.select("key"), "key", "left_anti")
        effects = self._indexed(union_of([rows.df.select("key", "fk", "problem"), gone]), index)
        effects = effects.coalesce(MOST_TASKS).withColumn("seq", seq_of_rows())
        return Decision(rows.made(rows.spread(effects)), versions.count(), asdict(began)), positions

    def decide(self, changes: Rows, state: Mapping[str, Any]) -> Decision:
        spark, before = changes.spark, StreamTableState.of(state)
        # Step 1: touched.
        arrived = fetched(changes.filter(exists("source")), self.delta.limits.few)
        records = self.left.read(arrived)
        # Step 2: pinned.
        version = self.right.newest(spark).version
        after = self.after(spark, before, arrived, version)
        # Step 3: recompute. Step 4: every record is a change; index rows are changes if they differ.
        index = self.delta.read(spark, self.plan.index)
        changed = self._changed(spark, before, version)
        parts = []
        if changed.max_rows != 0:
            newest = F.max_by(F.struct("fk", "problem"), "order").alias("newest")
            parts.append(self._indexed(changed.df.groupBy("key").agg(newest).select("key", "newest.*"), index))
        if records.max_rows != 0:
            after = replace(after, fresh=False)
            parts.append(self._joined(records, self._rows_met(records, changed, index, before, version)))
        rows_in = arrived.count()
        if not parts:
            return Decision(LocalRows.none(spark), rows_in, asdict(after))
        both = records.select("key").union(changed.select("key"))
        rows = both.spread(union_of([spark.createDataFrame([], _OF_EITHER), *parts]), "partition")
        rows = rows.sortWithinPartitions("offset", "row").withColumn("seq", seq_of_rows()).drop("offset", "row")
        return Decision(both.made(rows, self.delta.limits.few), rows_in, asdict(after))

    def folds(self, rows: Rows, found: Found, batches: Sequence[BatchId]) -> Sequence[Fold]:
        return [partial(self._fold_index, rows)] if "state" in kinds_of(found) else []

    def _changed(self, spark: SparkSession, before: StreamTableState, version: int) -> Rows:
        if version <= before.table:
            return LocalRows.none(spark, _REFERRING)
        changed = changed_rows(self.right, spark, before.table, version)
        return self._referring(fetched(changed, self.delta.limits.few))

    def _referring(self, versions: Rows) -> Rows:
        extractor = Selector(self.plan.extractor, self.left.text, "rightExtractor", "foreign key", self.event_timeout)
        return versions.map(SelectKeys("fk", self.right.text, extractor, self.left.text), _REFERRING)

    def _rows_met(
        self, records: Rows, changed: Rows, index: DataFrame, before: StreamTableState, version: int
    ) -> DataFrame:
        """Per foreign key the versions of all rows that have it or had it: columns look_up, rows."""
        unchanged = index.join(changed.df.select(F.col("key").alias("id")), "id", "left_anti")
        few = few_keys(records)
        if few is not None:
            unchanged = unchanged.join(few.df.select("look_up"), "look_up", "left_semi")
        indexed = unchanged.select(F.col("id").alias("key"), F.col("look_up").alias("fk"))
        keys = None if few is None else SparkRows(indexed)
        stored = newest_rows(self.right, index.sparkSession, version, keys).df
        versions: Rows = SparkRows(stored.join(indexed, "key").unionByName(changed.df.drop("problem")))
        if before.fresh:
            versions = in_their_own_time(versions)
        referred = by_key(versions.df, "fk").withColumn("look_up", F.explode(F.array_distinct("versions.fk")))
        rows = F.sort_array(F.collect_list(F.struct("key", "versions")))
        return referred.groupBy("look_up").agg(rows.alias("rows"))

    def _joined(self, records: Rows, rows: DataFrame) -> DataFrame:
        """The rows of the log for rows of RECORD with the table rows that refer to them (``rows``)."""
        timed = records.so_far("stream_time", "timestamp", ("source", "partition"), ("offset",))
        met = timed.df.join(rows, "look_up", "left")
        met_rows = F.transform(
            "rows", lambda row: F.struct(row["key"].alias("key"), seen(row["versions"]).alias("seen"))
        )
        holding = F.filter(met_rows, lambda row: row["seen"]["fk"] == F.col("look_up"))
        shown = ~F.col("unreadable")
        met = met.where(F.col("value").isNotNull() | F.col("problem").isNotNull())
        return met.withColumn("row", F.explode_outer(holding)).select(
            "key",
            F.when(shown, "value").otherwise("state").alias("kind"),
            F.when(shown, F.col("value")).alias("left"),
            F.col("row.seen.value").alias("right"),
            "timestamp",
            "source",
            "partition",
            "offset",
            F.col("row.key").alias("row"),
            "problem",
            F.col("problem").isNotNull().alias("failed"),
        )

    def _indexed(self, rows: DataFrame, index: DataFrame) -> DataFrame:
        """The rows of the log for rows whose key ``fk`` differs from the index, and for rows with a problem."""
        known = index.select(F.col("id").alias("key"), F.col("look_up").alias("old"))
        differs = ~F.col("fk").eqNullSafe(F.col("old")) | F.col("problem").isNotNull()
        changed = rows.join(known, "key", "left").where(differs)
        return changed.select(
            "key",
            F.lit("state").alias("kind"),
            F.current_timestamp().alias("timestamp"),
            F.lit(self.plan.right).alias("source"),
            F.col("key").alias("id"),
            F.col("fk").alias("look_up"),
            F.col("fk").isNotNull().alias("live"),
            "problem",
            F.col("problem").isNotNull().alias("failed"),
        )

    def _fold_index(self, rows: Rows) -> None:
        states = rows.df.where(F.col("id").isNotNull()).select("id", "look_up", "live")
        upsert = Upsert(on=("id",), compare=("look_up",), keep="live")
        self.delta.merge(rows.spark, rows.made(states).frame, self.plan.index, upsert)

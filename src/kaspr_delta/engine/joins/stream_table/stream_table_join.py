"""The join of a stream with a table: each record meets the row of its key, or of the key that a function computes.

The counterpart of Kafka Streams' ``KStream-KTable`` and ``KStream-GlobalKTable`` joins. Beyond these, records without a
row may wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import narwhals as nw
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.dead_letters import problem_column
from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.resource import Begun, Fold, Found
from kaspr_delta.engine.joins.stream_table.stream_table import StreamTable, StreamTableState
from kaspr_delta.engine.rows.local_rows import LocalRows, are_few, fetched
from kaspr_delta.engine.rows.rows import Rows, exists, union_of
from kaspr_delta.engine.rows.rows_by_key import few_keys
from kaspr_delta.engine.rows.sequence import seq_of_rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.engine.streams.table_versions import by_key, newest_rows, seen, stream_time_in
from kaspr_delta.plan.definition.joins import StreamTableJoinPlan
from kaspr_delta.storage.layout import PROBLEM
from kaspr_delta.storage.tables import Upsert

# The columns of a waiting record, beside its ``id`` and ``left``.
_WAITING = ("key", "look_up", "source", "timestamp", "until")


class StreamTableJoin(StreamTable[StreamTableJoinPlan]):
    """Inner and left joins; the table may be global."""

    @property
    def timed(self) -> bool:
        return self.plan.pending is not None

    @property
    def follows_changes(self) -> bool:
        return not self.plan.is_global

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        """Decide nothing: the stream goes on where the previous checkpoint ended."""
        began, positions = self.start(spark, state)
        return Decision(LocalRows.none(spark), 0, asdict(began)), positions

    def decide(self, changes: Rows, state: Mapping[str, Any]) -> Decision:
        spark, before = changes.spark, StreamTableState.of(state)
        # Step 1: touched.
        arrived = fetched(changes.filter(exists("source")), self.delta.limits.few)
        records = self.left.read(arrived, self._selector)
        # Step 2: pinned.
        version = self.right.newest(spark).version
        after = self.after(spark, before, arrived, version)
        parts = []
        if self.plan.pending is not None and before.until is not None:
            parts.append(self._no_longer_waiting(spark, version))
        # Step 3: recompute. Step 4: every record is a change.
        if records.max_rows != 0:
            after = replace(after, fresh=False)
            keys = few_keys(records.select(nw.col("look_up").alias("key")))
            parts.append(self._joined(records.df, self.rows_seen(spark, before, version, keys)))
        return self._decision(records, parts, arrived.count(), after)

    def is_due(self, state: Mapping[str, Any], *, ending: bool) -> bool:
        until = StreamTableState.of(state).until
        return until is not None and until <= _now()

    def due(self, spark: SparkSession, state: Mapping[str, Any], *, ending: bool) -> Decision | None:
        if not self.is_due(state, ending=ending):
            return None
        before = StreamTableState.of(state)
        waiting = [self._no_longer_waiting(spark, self.right.newest(spark).version)]
        decision = self._decision(LocalRows.none(spark), waiting, 0, before)
        # The rows in are the records that no longer wait.
        return replace(decision, rows_in=1 if decision.effects.max_rows is None else decision.effects.max_rows)

    def folds(self, rows: Rows, found: Found, batches: Sequence[BatchId]) -> Sequence[Fold]:
        return [] if self.plan.pending is None else [partial(self._fold_waiting, rows)]

    @property
    def _selector(self) -> Selector | None:
        if self.plan.mapper is None:
            return None
        return Selector(self.plan.mapper, self.right.text, "extractor", "key", self.event_timeout)

    def _decision(self, records: Rows, parts: list[DataFrame], rows_in: int, after: StreamTableState) -> Decision:
        if not parts:
            return Decision(LocalRows.none(records.spark), rows_in, asdict(after))
        rows = records.spread(union_of(parts), "partition")
        # Records that waited come first, then records of this batch in order of arrival.
        rows = rows.sortWithinPartitions(F.col("waited").desc(), "id", "offset")
        rows = rows.withColumn("seq", seq_of_rows()).drop("waited", "offset")
        effects = records.made(rows, self.delta.limits.few)
        if self.plan.pending is not None:
            after = replace(after, until=self._first_to_give_up(effects, self.plan.pending))
        return Decision(effects, rows_in, asdict(after))

    def _fits(self, value: Column) -> Column:
        """Whether a value of the table can be read: SQL may have written text that is not JSON."""
        return value.isNull() | self.right.readable.column(value)

    def _joined(self, records: DataFrame, versions: DataFrame) -> DataFrame:
        """The rows of the log for rows of RECORD and the versions of the table rows that they may see."""
        timed = records.withColumn("stream_time", stream_time_in(("source", "partition"), "offset"))
        rows = by_key(versions).withColumnRenamed("key", "look_up")
        stored = seen(F.col("versions"))["value"]
        if self.plan.pending is not None:  # the row may come later in the same batch: then the record need not wait
            newest = F.try_element_at("versions", F.lit(-1))["value"]
            stored = F.coalesce(stored, F.when(self._fits(newest), newest))
        met = timed.join(rows, "look_up", "left").withColumn("stored", stored)
        met = met.where(F.col("value").isNotNull() | F.col("problem").isNotNull())
        fits = self._fits(F.col("stored"))
        right = F.when(fits, F.col("stored"))
        detail = F.lit("the row of the table is not JSON text: repair or delete it")
        unreadable = problem_column("right value cannot be read", detail, F.col("stored"))
        trouble = F.coalesce("problem", F.when(~fits, unreadable))
        waits = F.lit(self.plan.pending is not None) & F.col("look_up").isNotNull() & F.col("stored").isNull()
        shown = ~F.col("unreadable") & ~waits & (F.lit(self.plan.type == "left") | right.isNotNull())
        kind = F.when(shown, F.lit("value")).when(waits | trouble.isNotNull(), F.lit("state"))
        # An unreadable record shows its own key in its dead letter.
        own_key = F.col("unreadable") | F.lit(self.plan.is_global)
        return met.where(kind.isNotNull()).select(
            F.when(own_key, F.col("key")).otherwise(F.col("look_up")).alias("key"),
            kind.alias("kind"),
            F.when(~F.col("unreadable"), F.col("value")).alias("left"),
            right.alias("right"),
            "timestamp",
            "source",
            "partition",
            "offset",
            F.lit(False).alias("waited"),
            "look_up",
            F.when(waits, F.concat_ws("/", "source", F.lpad(F.col("offset").cast("string"), 19, "0"))).alias("id"),
            F.when(waits, _instant(_now() + (self.plan.pending or 0))).alias("until"),
            F.when(waits, F.lit(True)).alias("live"),
            trouble.alias("problem"),
            trouble.isNotNull().alias("failed"),
        )

    def _no_longer_waiting(self, spark: SparkSession, version: int) -> DataFrame:
        """The rows of the log for waiting records whose row has come, or whose time is over."""
        waiting = self.delta.read(spark, self.plan.waiting)
        found = newest_rows(self.right, spark, version, SparkRows(waiting.select(F.col("look_up").alias("key"))))
        found = found.where(self._fits(F.col("value")))
        found = found.select(F.col("key").alias("look_up"), F.col("value").alias("right"))
        shown = F.col("right").isNotNull() | F.lit(self.plan.type == "left")
        rows = waiting.join(found, "look_up", "left")
        return rows.where(F.col("right").isNotNull() | (F.col("until") <= _instant(_now()))).select(
            "key",
            F.when(shown, "value").otherwise("state").alias("kind"),
            "left",
            "right",
            "timestamp",
            "source",
            F.lit(0).alias("partition"),
            F.lit(0).cast("bigint").alias("offset"),
            F.lit(True).alias("waited"),
            "look_up",
            "id",
            "until",
            F.lit(False).alias("live"),
            F.lit(None).cast(PROBLEM).alias("problem"),
            F.lit(False).alias("failed"),
        )

    def _first_to_give_up(self, effects: Rows, pending: int) -> int | None:
        """A time before which no record that waits after this batch gives up; None if no record waits."""
        waiting = self.delta.read(effects.spark, self.plan.waiting).select("id", "until")
        few = are_few(self.delta.limits, effects)
        if few:
            leaving = effects.df.where(~F.col("live")).select("id")
            coming = effects.df.where("live").select("id", "until")
            waiting = waiting.join(leaving, "id", "left_anti").unionByName(coming)
        first: int | None = waiting.agg(F.min(F.unix_millis("until"))).collect()[0][0]
        if few:
            return first
        # Many effects are not searched for waiting records: the first tick after their time finds whether any wait.
        latest = _now() + pending
        return latest if first is None else min(first, latest)

    def _fold_waiting(self, rows: Rows) -> None:
        states = rows.df.where(F.col("id").isNotNull()).select("id", "left", *_WAITING, "live")
        upsert = Upsert(on=("id",), compare=("left",), also=_WAITING, keep="live")
        self.delta.merge(rows.spark, rows.made(states).frame, self.plan.waiting, upsert)


def _instant(milliseconds: int) -> Column:
    return F.timestamp_millis(F.lit(milliseconds))


def _now() -> int:
    return time.time_ns() // 1_000_000

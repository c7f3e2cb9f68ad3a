"""A table made from a stream: each record adds to its group, in time windows if the table has windows.

The counterpart of Kafka Streams' ``KGroupedStream``, of its windows, and of ``toTable``. Stream time is per partition,
as in Kafka Streams. With a ``groupBy`` function the records are first repartitioned by their groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.aggregation.aggregation import Aggregation, failed_rows
from kaspr_delta.engine.batch.checkpoint import Start
from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.resource import Begun
from kaspr_delta.engine.rows.local_rows import LocalRows, fetched
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.engine.streams.effect import to_rows
from kaspr_delta.engine.streams.stream_side import StreamSide, reached
from kaspr_delta.engine.windows import passed_windows, window_starts
from kaspr_delta.plan.definition.window import WindowPlan

# The columns that turn rows of RECORD with a group and a window into changes of groups (see ``Change``).
_ADDED = (
    "look_up AS grp",
    "window_start",
    "'add' AS op",
    "value",
    "timestamp",
    "stream",
    "source",
    "CAST(NULL AS STRING) AS id",
    "false AS last",
    "struct(partition, offset) AS position",
)


class StreamAggregation(Aggregation):
    """``toTable``, ``count``, ``reduce`` and ``aggregate`` over a stream."""

    @property
    def stream(self) -> StreamSide:
        """The records that the table is made from; with a ``groupBy`` function, repartitioned by their groups."""
        origin: Any = self.plan.origin  # a StreamPlan, not the name of a table
        regrouped = replace(origin, repartitioned=origin.repartitioned or self.plan.group is not None)
        return StreamSide(self.delta, regrouped, self.application, str(self.ref))

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        return self.stream.stream(spark, start.positions[self.stream.plan.name])

    def reached(self, state: Mapping[str, Any]) -> Mapping[str, int]:
        read: Mapping[str, int] = state.get("read", {})
        return read

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        """An empty decision: the stream is read from the position that the previous checkpoint had reached."""
        positions = self.stream.source.positions(spark, state.get("read", {}))
        return Decision(LocalRows.none(spark), 0, {**state, "read": positions}), positions

    def catch_up(self, spark: SparkSession, state: Mapping[str, Any]) -> Begun | None:
        unread = self.stream.source.unread(spark, state["read"])
        if unread is None:
            return None
        decision = self.decide(SparkRows(unread.records), state)
        return replace(decision, state={**decision.state, "read": unread.upto}), unread.upto

    def decide(self, changes: Rows, state: Mapping[str, Any]) -> Decision:
        # Step 1: touched.
        arrived = fetched(changes, self.delta.limits.few)
        if arrived.max_rows == 0:
            return Decision(LocalRows.none(changes.spark), 0, state)
        records = self.stream.read(arrived, self.grouping, self.table.text)
        read = {**state.get("read", {}), **reached(arrived)}
        # Step 2: pinned. Step 3: recompute.
        grouped = _grouped(records.df)
        window = self.table.plan.window
        times: Mapping[str, int] = state.get("times", {})
        placed = grouped if window is None else _in_windows(grouped, window, times)
        added = placed.selectExpr(*_ADDED)
        # In Kafka Streams toTable, and windows that count or aggregate, take records without a value.
        if self.plan.kind not in ({"toTable"} if window is None else {"count", "aggregate"}):
            added = added.where(F.col("value").isNotNull())
        folded = self.folded(records, added, self.stream.text)
        # Step 4: difference. The fold does not write a group whose row is unchanged.
        rows = folded.df.unionByName(failed_rows(records.df), allowMissingColumns=True)
        if window is not None:
            clock = Clock(window, self.plan.name, times)
            times = _times(grouped, times)
            clock.times.update(times)
            passed = to_rows(changes.spark, passed_windows(self.plan.name, clock)).df
            passed = passed.select("kind", "stream", "window_start", "timestamp")
            rows = rows.unionByName(passed, allowMissingColumns=True)
        count = arrived.count()
        effects = records.made(records.spread(rows))
        return Decision(effects, count, {"read": read, "times": times})


def _grouped(records: DataFrame) -> DataFrame:
    """The records with a group, and the stream whose time they advance. Other records add nothing, not even time."""
    grouped = records.where(F.col("look_up").isNotNull() & ~F.col("unreadable"))
    stream, no_window = F.concat_ws("/", "source", "partition"), F.lit(None).cast("timestamp")
    return grouped.withColumns({"stream": stream, "window_start": no_window})


def _in_windows(grouped: DataFrame, window: WindowPlan, times: Mapping[str, int]) -> DataFrame:
    """The records once for each open window of their time."""
    timed = SparkRows(grouped).so_far("so_far", "timestamp", ("stream",), ("offset",)).df
    timed = timed.withColumn("now", F.greatest(F.unix_millis("so_far"), _before(times))).drop("so_far")
    at = F.unix_millis("timestamp")
    each = timed.withColumn("start", F.explode(window_starts(at, window)))
    is_open = F.col("start") + window.size + window.grace > F.col("now")
    # As in Kafka Streams, time begins in 1970: a record of the first moments of 1970 is in fewer windows.
    is_open &= (F.col("start") >= 0) | (at < 0)
    return each.where(is_open).withColumn("window_start", F.timestamp_millis("start"))


def _before(times: Mapping[str, int]) -> Column:
    """The stream time of a record's stream before the batch; NULL for a new stream."""
    if not times:
        return F.lit(None).cast("bigint")
    known = [part for stream, now in times.items() for part in (F.lit(stream), F.lit(now).cast("bigint"))]
    return F.try_element_at(F.create_map(*known), F.col("stream"))


def _times(grouped: DataFrame, before: Mapping[str, int]) -> dict[str, int]:
    """The stream time of each partition after the batch, in milliseconds."""
    newest = grouped.groupBy("stream").agg(F.max(F.unix_millis("timestamp")).alias("now")).collect()
    found = {row["stream"]: row["now"] for row in newest}
    return {**before, **{stream: max(now, before.get(stream, now)) for stream, now in found.items()}}

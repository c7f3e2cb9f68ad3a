"""A table made from a stream: each record adds to its group, in time windows if the table has windows.

The counterpart of Kafka Streams' ``KGroupedStream``, of its windows, and of ``toTable``. Stream time is per partition,
as in Kafka Streams. With a ``groupBy`` function the records are first repartitioned by their groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kaspr_delta.engine.agent.ordered import passed_windows
from kaspr_delta.engine.aggregation.aggregation import Aggregation
from kaspr_delta.engine.batch.checkpoint import Start
from kaspr_delta.engine.batch.resource import Decision, SourceTable
from kaspr_delta.engine.rows.local_rows import LocalRows, rows_within
from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.engine.streams.effect import to_rows
from kaspr_delta.engine.streams.stream_side import StreamSide, reached
from kaspr_delta.engine.streams.table_versions import stream_time_in
from kaspr_delta.plan.definition.joins import StreamPlan
from kaspr_delta.plan.definition.window import WindowPlan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# The kinds that take records without a value: without windows, and with windows (Kafka Streams' windows count them).
_TAKE_NO_VALUE = (frozenset({"toTable"}), frozenset({"count", "aggregate"}))


# The columns that turn rows of RECORD with a group into rows of CHANGES.
_ADDED = (
    "look_up AS grp",
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

    __slots__ = ()

    @property
    def stream(self) -> StreamSide:
        """The records that the table is made from; with a ``groupBy`` function, repartitioned by their groups."""
        origin = self.plan.origin
        if not isinstance(origin, StreamPlan):
            msg = f"{self.ref} is made from a table"
            raise TypeError(msg)
        regrouped = replace(origin, repartitioned=origin.repartitioned or self.plan.group is not None)
        return StreamSide(self.delta, regrouped, self.application, str(self.ref))

    def sources(self, spark: SparkSession) -> Mapping[str, SourceTable]:
        return {self.stream.plan.name: SourceTable(self.stream.table, by_offset=True)}

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        return self.stream.stream(spark, start.positions[self.stream.plan.name])

    def reached(self, state: Mapping[str, Any]) -> Mapping[str, int]:
        read: Mapping[str, int] = state.get("read", {})
        return read

    def begin(
        self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool
    ) -> tuple[Decision, Mapping[str, int]]:
        """An empty decision: the stream is read from the position that the previous checkpoint had reached."""
        name = self.stream.plan.name
        positions = {name: self.stream.first_position(spark, state.get("read", {}))}
        return Decision(LocalRows.none(spark), 0, {**state, "read": positions}), positions

    def catch_up(self, spark: SparkSession, state: Mapping[str, Any]) -> tuple[Decision, Mapping[str, int]] | None:
        unread = self.stream.source.unread(spark, state["read"])
        if unread is None:
            return None
        decision = self.decide(unread.records, state)
        return replace(decision, state={**decision.state, "read": unread.upto}), unread.upto

    def decide(self, batch: DataFrame, state: Mapping[str, Any]) -> Decision:
        # Step 1: touched.
        arrived = rows_within(batch, self.delta.limits.few, self.delta.limits)
        if arrived.max_rows == 0:
            return Decision(LocalRows.none(batch.sparkSession), 0, state)
        records = self.stream.read(arrived, self.grouping, self.table.text)
        read = {**state.get("read", {}), **reached(arrived)}
        # Step 2: pinned. Step 3: recompute.
        window = self.table.plan.window
        times: Mapping[str, int] = state.get("times", {})
        added = _added(records.df) if window is None else _added_to_windows(records.df, window, times)
        if self.plan.kind not in _TAKE_NO_VALUE[window is not None]:
            added = added.where(F.col("value").isNotNull())
        folded = self.folded(records, added, self.stream.text)
        # Step 4: difference. The fold does not write a group whose row is unchanged.
        rows = folded.df.unionByName(_failed(records.df), allowMissingColumns=True)
        if window is not None:
            after = _times(records.df, times)
            rows = rows.unionByName(self._passed(batch.sparkSession, window, times, after), allowMissingColumns=True)
            times = after
        count = arrived.count()
        effects = records.made(records.spread(rows))
        return Decision(effects, count, {"read": read, "times": times})

    def _passed(
        self, spark: SparkSession, window: WindowPlan, before: Mapping[str, int], after: Mapping[str, int]
    ) -> DataFrame:
        """The windows that closed or expired, as rows of the log."""
        clock = Clock(window, self.plan.name, before)
        clock.times.update(after)
        effects = to_rows(spark, passed_windows(self.plan.name, clock))
        return effects.df.select("kind", "stream", "window_start", "timestamp")


def _grouped(records: DataFrame) -> DataFrame:
    """The records with a group, and the stream whose time they advance. Other records add nothing, not even time."""
    grouped = records.where(F.col("look_up").isNotNull() & ~F.col("unreadable"))
    return grouped.withColumn("stream", F.concat_ws("/", "source", "partition"))


def _added(records: DataFrame) -> DataFrame:
    """The additions of records to their groups: rows of CHANGES."""
    return _grouped(records).selectExpr("CAST(NULL AS TIMESTAMP) AS window_start", *_ADDED)


def _added_to_windows(records: DataFrame, window: WindowPlan, times: Mapping[str, int]) -> DataFrame:
    """The additions of records to their groups, in the open windows of the records' times: rows of CHANGES."""
    so_far = F.unix_millis(stream_time_in(("stream",), "offset"))
    timed = _grouped(records).withColumn("now", F.greatest(so_far, _before(times)))
    at = F.unix_millis("timestamp")
    last_start = at - F.pmod(at, F.lit(window.step))
    first_start = at - window.size + 1 + F.pmod(F.lit(window.size - 1) - at, F.lit(window.step))
    each = timed.withColumn("start", F.explode(F.sequence(first_start, last_start, F.lit(window.step))))
    is_open = F.col("start") + window.size + window.grace > F.col("now")
    # As in Kafka Streams, time begins in 1970: a record of the first moments of 1970 is in fewer windows.
    is_open &= (F.col("start") >= 0) | (at < 0)
    return each.where(is_open).selectExpr("timestamp_millis(start) AS window_start", *_ADDED)


def _before(times: Mapping[str, int]) -> Column:
    """The stream time of a record's stream before the batch; NULL for a new stream."""
    if not times:
        return F.lit(None).cast("bigint")
    known = [part for stream, now in times.items() for part in (F.lit(stream), F.lit(now).cast("bigint"))]
    return F.try_element_at(F.create_map(*known), F.col("stream"))


def _times(records: DataFrame, before: Mapping[str, int]) -> dict[str, int]:
    """The stream time of each partition after the batch, in milliseconds. Records without a group do not advance it."""
    newest = _grouped(records).groupBy("stream").agg(F.max(F.unix_millis("timestamp")).alias("now")).collect()
    found = {row["stream"]: row["now"] for row in newest}
    return {**before, **{stream: max(now, before.get(stream, now)) for stream, now in found.items()}}


def _failed(records: DataFrame) -> DataFrame:
    failed = records.where(F.col("problem").isNotNull())
    return failed.select(F.lit("failed").alias("kind"), "key", "timestamp", "source", "problem")

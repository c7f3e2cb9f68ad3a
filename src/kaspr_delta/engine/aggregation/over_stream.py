"""A table made from a stream: each record adds to its group, in time windows if the table has windows.

The counterpart of Kafka Streams' ``KGroupedStream``, of its windows, and of ``toTable``. Stream time is per partition,
as in Kafka Streams. With a ``groupBy`` function the records are first repartitioned by their groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import narwhals as nw
from pyspark.sql import DataFrame, SparkSession

from kaspr_delta.engine.aggregation.aggregation import Aggregation, failed_rows
from kaspr_delta.engine.aggregation.fold_groups import Change
from kaspr_delta.engine.aggregation.in_windows import InWindows
from kaspr_delta.engine.batch.checkpoint import Start
from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.resource import Begun
from kaspr_delta.engine.rows.local_rows import LocalRows, fetched, union_all
from kaspr_delta.engine.rows.rows import FALSE, Rows, exists, none_like, text
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.engine.streams.effect import to_rows
from kaspr_delta.engine.streams.stream_side import RECORD, StreamSide, reached
from kaspr_delta.engine.windows import passed_windows
from kaspr_delta.plan.definition.window import WindowPlan
from kaspr_delta.serde.instants import microseconds

# The columns by which records are added to their groups, in order.
_ORDER = ("partition", "offset")


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

    def arrived(self, spark: SparkSession, after: Mapping[str, int], upto: Mapping[str, int]) -> Rows | None:
        name = self.stream.plan.name
        return self.stream.arrived(spark, after[name], upto[name])

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
        grouped = _grouped(records)
        window = self.table.plan.window
        times: Mapping[str, int] = state.get("times", {})
        placed = grouped if window is None else _in_windows(grouped, window, times)
        # In Kafka Streams toTable, and windows that count or aggregate, take records without a value.
        if self.plan.kind not in ({"toTable"} if window is None else {"count", "aggregate"}):
            placed = placed.filter(exists("value"))
        added = placed.with_columns(grp=nw.col("look_up"), op=text("add"), id=text(None), last=FALSE)
        added = added.select(*Change._fields, *_ORDER)
        folded = self.folded(records, added, _ORDER, self.stream.text)
        # Step 4: difference. The fold does not write a group whose row is unchanged.
        parts = [folded, failed_rows(records)]
        if window is not None:
            clock = Clock(window, self.plan.name, times)
            times = _times(grouped, times)
            clock.times.update(times)
            passed = to_rows(changes.spark, passed_windows(self.plan.name, clock))
            parts.append(passed.select("kind", "stream", "window_start", "timestamp"))
        return Decision(union_all(parts), arrived.count(), {"read": read, "times": times})


def _grouped(records: Rows) -> Rows:
    """The records with a group, and the stream whose time they advance. Other records add nothing, not even time."""
    stream = nw.concat_str("source", nw.col("partition").cast(nw.String), separator="/")
    no_window = none_like("timestamp")
    grouped = records.filter(exists("look_up") & ~nw.col("unreadable"))
    return grouped.with_columns(stream=stream, window_start=no_window)


def _in_windows(grouped: Rows, window: WindowPlan, times: Mapping[str, int]) -> Rows:
    """The records once for each open window of their time."""
    timed = grouped.so_far("so_far", "timestamp", ("stream",), ("offset",))
    return timed.map(InWindows(window, times), f"{RECORD}, stream STRING, window_start TIMESTAMP")


def _times(grouped: Rows, before: Mapping[str, int]) -> dict[str, int]:
    """The stream time of each partition after the batch, in milliseconds."""
    newest = grouped.select("stream", "timestamp").newest(("stream",), ("timestamp",)).collect().to_pylist()
    found = {row["stream"]: microseconds(row["timestamp"]) // 1_000 for row in newest}
    return {**before, **{stream: max(now, before.get(stream, now)) for stream, now in found.items()}}

"""The windowed join of two streams as a resource: its batch, and its buffer.

Records of both streams are joined if they have the same key and partition, and their times are within the window. The
counterpart of Kafka Streams' ``KStream-KStream`` joins.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId, Start
from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.resource import Begun, Fold, Found, Resource, kinds_of
from kaspr_delta.engine.joins.stream_stream.batch import SIDES, StreamStreamBatch
from kaspr_delta.engine.joins.stream_stream.window_join import Buffered, JoinWindow, Side, StreamRecord
from kaspr_delta.engine.rows.local_rows import LocalRows, few_or_all
from kaspr_delta.engine.rows.rows import Rows, exists, union_of
from kaspr_delta.engine.streams.arrived import arrived_records
from kaspr_delta.engine.streams.stream_side import SCHEMA, StreamSide
from kaspr_delta.plan.definition.joins import StreamStreamJoinPlan
from kaspr_delta.serde.instants import microseconds
from kaspr_delta.storage.tables import Upsert

_BUFFER = ("id", "side", "partition", "key", "timestamp", "arrived", "value", "pending")
_STATE = ("side", "partition", "key", "timestamp", "arrived")


class StreamStreamJoin(Resource[StreamStreamJoinPlan]):
    """Inner, left and outer joins of two streams.

    The state after a batch is ``read``, the last offset of each stream by side, and ``times`` and ``cleaned`` of
    ``StreamStreamBatch``.
    """

    @property
    def sides(self) -> Mapping[Side, StreamSide]:
        plans = zip(SIDES, (self.plan.left, self.plan.right), strict=True)
        return {side: StreamSide(self.delta, plan, self.application, str(self.ref)) for side, plan in plans}

    @property
    def window(self) -> JoinWindow:
        return JoinWindow(self.plan.before, self.plan.after, self.plan.grace)

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        """Records of the sides in one query, so that one checkpoint covers both.

        A backlog is one batch: if it were split by size, one side, and with it stream time, would run far ahead of the
        other side.
        """
        positions = start.positions
        return union_of(
            of.stream(spark, positions[side]).withColumn("side", F.lit(side))
            for side, of in self.sides.items()
            if side in positions
        )

    def arrived(self, spark: SparkSession, after: Mapping[str, int], upto: Mapping[str, int]) -> Rows | None:
        parts: list[pa.Table] = []
        for side, of in self.sides.items():
            name = of.plan.name
            found = arrived_records(of.source, {name: after[side]}, {name: upto[side]}, self.delta.limits.few)
            if found is None:
                return None
            parts.append(found.append_column("side", pa.repeat(side, found.num_rows)))
        return LocalRows(spark, pa.concat_tables(parts))

    def reached(self, state: Mapping[str, Any]) -> Mapping[str, int]:
        return {side: position for side, read in state.get("read", {}).items() for position in read.values()}

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        """Decide nothing: both streams go on where the previous checkpoint ended."""
        before, sides = state.get("read", {}), self.sides.items()
        positions: dict[str, int] = {side: of.first_position(spark, before.get(side, {})) for side, of in sides}
        read = {side: {of.plan.name: positions[side]} for side, of in sides}
        return Decision(LocalRows.none(spark), 0, {**state, "read": read}), positions

    def decide(self, changes: Rows, state: Mapping[str, Any]) -> Decision:
        spark = changes.spark
        # Step 1: touched.
        rows = changes.collect()
        if rows.num_rows == 0:
            return Decision(LocalRows.none(spark), 0, state)
        read, arrived, failed = self._read(rows)
        # Step 2: pinned. Step 3: recompute.
        joins = StreamStreamBatch.resumed(self.plan.type, self.window, state)
        buffer, unread = self._buffered(spark, arrived, joins.newest(arrived))
        # Step 4: every record is a change.
        logged = pa.concat_tables([joins.run(arrived, buffer, unread), *failed], promote_options="default")
        read = {side: {**state.get("read", {}).get(side, {}), **read.get(side, {})} for side in SIDES}
        # The state as it is read back from the log.
        after = json.loads(json.dumps({"read": read, "times": joins.times, "cleaned": joins.cleaned}))
        return Decision(LocalRows(spark, logged), rows.num_rows, after)

    def folds(self, rows: Rows, found: Found, batches: Sequence[BatchId]) -> Sequence[Fold]:
        kinds = kinds_of(found)
        return [partial(self._fold_buffer, rows, expire="expire" in kinds)] if kinds - {"value"} else []

    def _read(self, rows: pa.Table) -> tuple[dict[str, dict[str, int]], list[StreamRecord], list[pa.Table]]:
        """The last offsets by side, the records, and unreadable records as rows of the log."""
        read: dict[str, dict[str, int]] = {}
        arrived: list[StreamRecord] = []
        failed: list[pa.Table] = []
        for side, of in self.sides.items():
            mine = rows.filter(pc.equal(rows["side"], side))
            if mine.num_rows == 0:
                continue
            records = pa.Table.from_batches(of.reading()(mine.to_batches()), SCHEMA)
            read[side] = {of.plan.name: pc.max(mine["offset"]).as_py()}
            arrived += [_record(side, row) for row in records.filter(pc.invert(records["unreadable"])).to_pylist()]
            failed.append(_letters(records.filter(records["unreadable"])))
        return read, arrived, failed

    def _buffered(
        self, spark: SparkSession, arrived: Sequence[StreamRecord], newest: Mapping[int, int]
    ) -> tuple[dict[int, list[Buffered]], dict[int, dict[Side, list[int]]]]:
        """The part of the buffer that the batch needs: rows by partition, and the times of pending rows that stay."""
        if not arrived:
            return {}, {}
        keys = {(record.partition, record.key) for record in arrived if record.key is not None}
        found = self._stored(spark, keys, sorted(newest))
        rows: defaultdict[int, list[Buffered]] = defaultdict(list)
        unread: defaultdict[int, dict[Side, list[int]]] = defaultdict(lambda: {"left": [], "right": []})
        for row in sorted(found, key=lambda row: row["timestamp"]):  # times of pending rows are ascending
            side: Side = row["side"]
            timestamp = microseconds(row["timestamp"]) // 1_000
            if row["met"] or timestamp < self.window.closed(side, newest[row["partition"]]):
                kept = Buffered(side, row["id"], row["key"], row["value"], timestamp, row["pending"], row["arrived"])
                rows[row["partition"]].append(kept)
            else:
                unread[row["partition"]][side].append(timestamp)
        return rows, unread

    def _stored(
        self, spark: SparkSession, keys: Collection[tuple[int, str]], partitions: Sequence[int]
    ) -> list[Mapping[str, Any]]:
        """The buffer's rows of these partitions that are pending, or have one of the keys: with a column ``met``."""
        there = self.delta.scan(spark, self.plan.buffer).where(f"partition IN ({', '.join(map(str, partitions))})")
        stored = few_or_all(there, spark, _BUFFER, self.delta.limits.few)
        if isinstance(stored, LocalRows):
            rows = stored.table.to_pylist()
            marked = [{**row, "met": (row["partition"], row["key"]) in keys} for row in rows]
            return [row for row in marked if row["met"] or row["pending"]]
        wanted = spark.createDataFrame(sorted(keys), "partition INT, key STRING").withColumn("met", F.lit(True))
        found = stored.df.join(F.broadcast(wanted), ["partition", "key"], "left").where("met OR pending")
        return [row.asDict() for row in found.collect()]

    def _fold_buffer(self, rows: Rows, *, expire: bool) -> None:
        states = rows.filter((nw.col("kind") == "state") & exists("id"))
        states = states.select("id", *_STATE, nw.col("left").alias("value"), "pending", "live")
        upsert = Upsert(on=("id",), compare=("pending",), also=("value", *_STATE), keep="live")
        self.delta.merge(rows.spark, states.frame, self.plan.buffer, upsert)
        if not expire:
            return
        for row in rows.filter(nw.col("kind") == "expire").select("partition", "side", "until").collect().to_pylist():
            condition = f"partition = {row['partition']} AND side = {{side}} AND NOT pending AND timestamp < {{until}}"
            self.delta.delete(rows.spark, self.plan.buffer, condition, side=row["side"], until=row["until"])


def _record(side: Side, row: Mapping[str, Any]) -> StreamRecord:
    partition, offset, time = row["partition"], row["offset"], microseconds(row["timestamp"]) // 1_000
    return StreamRecord(side, f"{side}:{row['source']}/{offset}", row["key"], row["value"], time, partition, offset)


def _letters(unreadable: pa.Table) -> pa.Table:
    """Records that cannot be read, as rows of the log."""
    letters = unreadable.select(["key", "timestamp", "source", "partition", "problem", "unreadable"])
    letters = letters.rename_columns({"unreadable": "failed"})
    return letters.append_column("kind", pa.repeat("state", letters.num_rows))

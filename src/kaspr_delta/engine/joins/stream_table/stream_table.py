"""The base of joins of a stream with a table.

Only records of the stream emit. The query reads the table's change feed as well: a record sees every change that
arrived before it, even if the record's own timestamp is older (see ``table_versions``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import narwhals as nw
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import Start
from kaspr_delta.engine.batch.resource import Resource
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.local_rows import LocalRows, are_few
from kaspr_delta.engine.rows.rows import Rows, union_of
from kaspr_delta.engine.rows.sequence import version_of
from kaspr_delta.engine.streams.source import INPUT
from kaspr_delta.engine.streams.stream_side import StreamSide, reached
from kaspr_delta.engine.streams.table_versions import in_their_own_time, newest_rows, versions
from kaspr_delta.plan.definition.joins import RightForeignKeyJoinPlan, StreamTableJoinPlan

StreamTablePlanT = TypeVar("StreamTablePlanT", bound=StreamTableJoinPlan | RightForeignKeyJoinPlan)


@dataclass(frozen=True, slots=True)
class StreamTableState:
    """The state after a batch. The log stores it as plain data (``asdict``).

    ``read``: the last offset by topic or channel. ``table``: the version of the table that was seen. ``fresh``: none of
    its changes were seen, so its rows count from their own times. ``until``: a time in milliseconds since 1970;
    no waiting record gives up before it.
    """

    read: Mapping[str, int] = field(default_factory=dict)
    table: int = 0
    fresh: bool = False
    until: int | None = None

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> StreamTableState:
        return cls(**{name: plain[name] for name in cls.__dataclass_fields__ if name in plain})


class StreamTable(Resource[StreamTablePlanT]):
    """A join of a stream with a table."""

    @property
    def left(self) -> StreamSide:
        return StreamSide(self.delta, self.plan.left, self.application, str(self.ref))

    @property
    def right(self) -> KeyedTable:
        return KeyedTable(self.delta, self.application.table_or_result(self.plan.right))

    @property
    def follows_changes(self) -> bool:
        """Whether a record sees the table as of its time; a global table is seen at its newest version."""
        return True

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        """Records of the stream, and a row without a source for each change of the table."""
        parts = []
        if "stream" in start.positions:
            parts.append(self.left.stream(spark, start.positions["stream"]))
        if "table" in start.positions:
            feed = self.delta.stream_after(spark, self.right.plan.delta_name, start.positions["table"])
            parts.append(feed.select(*(F.lit(None).cast(kind).alias(name) for name, kind in INPUT.items())))
        return union_of(parts)

    def reached(self, state: Mapping[str, Any]) -> Mapping[str, int]:
        before = StreamTableState.of(state)
        return {"stream": before.read[self.plan.left.name], "table": before.table}

    def start(self, spark: SparkSession, state: Mapping[str, Any]) -> tuple[StreamTableState, Mapping[str, int]]:
        """The state and the positions with which a new checkpoint begins.

        If the stream has records already, the first batch holds both sides: rows of the table count from their own
        times. Otherwise the table was there before the stream.
        """
        before = StreamTableState.of(state)
        position = self.left.first_position(spark, before.read)
        fresh = before.fresh or (not state and self.left.waits(spark, position))
        version = self.right.newest(spark).version
        began = replace(before, read={self.plan.left.name: position}, table=version, fresh=fresh)
        positions = {"stream": position, "table": version}
        return began, {source: positions[source] for source in self.sources(spark)}

    def arrived(self, spark: SparkSession, after: Mapping[str, int], upto: Mapping[str, int]) -> Rows | None:
        records = self.left.arrived(spark, after["stream"], upto["stream"])
        if records is None or not self.follows_changes or after["table"] >= upto["table"]:
            return records
        table, limits = self.right.plan.delta_name, self.delta.limits
        changed = self.delta.changes_here(table, after["table"] + 1, upto["table"], limits.few, ("key",))
        if changed is None:
            return None
        return records.union(LocalRows(spark, pa.table([pa.nulls(changed.num_rows, pa.string())], names=["source"])))

    def rows_seen(self, spark: SparkSession, before: StreamTableState, version: int, keys: Rows | None) -> Rows:
        """The versions of table rows that records of this batch may see (see ``table_versions.versions``)."""
        if not self.follows_changes:
            return newest_rows(self.right, spark, version, keys)
        if before.fresh:
            return in_their_own_time(newest_rows(self.right, spark, version, keys))
        return versions(self.right, spark, before.table, version, keys)

    def after(self, spark: SparkSession, before: StreamTableState, arrived: Rows, version: int) -> StreamTableState:
        """The state after a batch of these rows of InputRecord that saw the table at a version.

        A batch may end before records that have arrived, for example if it is repeated after a crash. The next batch
        merges these records with the changes that came after them: its ``table`` is before the first of these changes.
        """
        after = replace(before, read={**before.read, **reached(arrived)}, table=version)
        if not self.follows_changes or version <= before.table:
            return after
        position = after.read[self.plan.left.name]
        newest = self.left.newest(spark)
        if newest <= version_of(position) and are_few(self.delta.limits, arrived):
            return after  # Delta only splits commits of many files
        arrives = self.left.between(spark, position, newest).least("arrived")
        if arrives is None:
            return after
        changed = self.right.changes(spark, before.table, version)
        first = changed.filter(nw.col("at") > nw.lit(arrives)).least("version")
        return after if first is None else replace(after, table=first - 1)

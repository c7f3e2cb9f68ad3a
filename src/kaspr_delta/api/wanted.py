"""The records of a topic or channel that somebody wants, read in a folder by delta-rs and in a catalog by Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.rows.sequence import SEQ_BITS, end_of, version_of
from kaspr_delta.storage.lazy_session import because
from kaspr_delta.storage.native.appended import OnlySparkReadsError, appended
from kaspr_delta.storage.opening import folder_tables
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[dict[str, Any]]


def end_of_records(spark: SparkSession, delta: Tables, table: str) -> int:
    """The greatest offset that a record in the table may have by now; -1 where there is no table."""
    return end_of(delta.newest(spark, table).version) if delta.exists(spark, table) else -1


@dataclass(frozen=True, slots=True)
class Wanted:
    """The first ``limit`` or the last ``tail`` records of those with a ``key``, ``since`` a time, ``after`` an offset.

    The key is one as the table stores it.
    """

    limit: int | None = None
    tail: int | None = None
    key: bytes | str | None = None
    since: datetime | None = None
    after: int = -1

    def read(
        self,
        spark: SparkSession,
        delta: Tables,
        table: str,
        mine: Callable[[pa.Table], pa.Table],
        stored: Callable[[], DataFrame],
    ) -> Rows:
        """The records in order, with their ``offset``. A table that does not exist has none.

        ``mine`` restricts rows of the table to records; ``stored`` are the records in Spark.
        """
        local = folder_tables(delta.namespace)
        if local is not None and local.has_folder(table):
            try:
                parts = appended(local, table, version_of(self.after), newest_first=self.tail is not None)
                return self._taken(self._of(mine(rows)) for rows in parts)
            except OnlySparkReadsError:
                because(spark, f"delta-rs does not read the changes of '{table}'")
        return self.in_spark(stored())

    def _of(self, rows: pa.Table) -> Rows:
        offsets = pc.add(pc.shift_left(rows["_commit_version"].cast(pa.int64()), SEQ_BITS), rows["seq"])
        rows = rows.append_column("offset", offsets)
        condition = pc.field("offset") > self.after
        if self.key is not None:
            condition &= pc.field("key") == pa.scalar(self.key)
        if self.since is not None:
            condition &= pc.field("timestamp") >= pa.scalar(self.since, pa.timestamp("us", "UTC"))
        found: Rows = rows.filter(condition).to_pylist()
        return found

    def _taken(self, parts: Iterator[Rows]) -> Rows:
        """The first or last records of the parts, of which the newest come first if the last ones are wanted."""
        most = self.limit if self.tail is None else self.tail
        found: Rows = []
        while (most is None or len(found) < most) and (part := next(parts, None)) is not None:
            found = found + part if self.tail is None else part + found
        if self.tail is None:
            return found[: self.limit]
        return found[len(found) - min(self.tail, len(found)) :][: self.limit]

    def in_spark(self, records: DataFrame) -> Rows:
        """The records in order, of those that Spark has."""
        from pyspark.sql import functions as F

        records = records.where(F.col("offset") > self.after)
        if self.key is not None:
            records = records.where(F.col("key") == F.lit(self.key))
        if self.since is not None:
            records = records.where(F.col("timestamp") >= F.lit(self.since))
        if self.tail is not None:
            records = records.orderBy(F.desc("offset")).limit(self.tail)
        records = records.orderBy("offset")
        return [row.asDict() for row in (records if self.limit is None else records.limit(self.limit)).collect()]

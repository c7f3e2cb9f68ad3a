"""The records of a topic or channel that somebody wants, read in a folder by delta-rs and in a catalog by Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kaspr_delta.api.frames import Frames, table_of
from kaspr_delta.api.records import ANY_KEY
from kaspr_delta.engine.rows.sequence import end_of, offsets, version_of
from kaspr_delta.serde.instants import microseconds
from kaspr_delta.storage.lazy_session import because
from kaspr_delta.storage.native.records import OnlySparkReadsError, records_appended
from kaspr_delta.storage.opening import folder_tables
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The first ``limit`` or the last ``tail`` records: with a ``key``, ``since`` a time, ``after`` an offset.

    The key is one as the table stores it, or None: records without a key.
    """

    limit: int | None = None
    tail: int | None = None
    key: bytes | str | None = ANY_KEY
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
                parts = records_appended(local, table, version_of(self.after), newest_first=self.tail is not None)
                return self.taken(map(mine, parts))
            except OnlySparkReadsError:
                because(spark, f"delta-rs does not read the changes of '{table}'")
        return self.in_spark(stored())

    def _of(self, rows: pa.Table) -> Rows:
        import pyarrow.compute as pc  # to write records takes less of Arrow, and starts quicker

        rows = rows.append_column("offset", offsets(rows))
        condition = pc.field("offset") > self.after
        if self.key is None:
            condition &= pc.field("key").is_null()
        elif self.key is not ANY_KEY:
            condition &= pc.field("key") == pa.scalar(self.key)
        if self.since is not None:
            condition &= pc.field("timestamp") >= pa.scalar(self.since, pa.timestamp("us", "UTC"))
        found: Rows = rows.filter(condition).to_pylist()
        return found

    def taken(self, parts: Iterator[pa.Table]) -> Rows:
        """The records in order, of parts of which the newest come first if the last ones are wanted."""
        most = self.limit if self.tail is None else self.tail
        taken, count = list[Rows](), 0
        while (most is None or count < most) and (part := next(parts, None)) is not None:
            taken.append(self._of(part))
            count += len(taken[-1])
        found = list(chain.from_iterable(taken if self.tail is None else reversed(taken)))
        first = 0 if self.tail is None else max(0, count - self.tail)
        return found[first:][: self.limit]

    def in_spark(self, records: DataFrame) -> Rows:
        """The records in order, of those that Spark has."""
        from pyspark.sql import functions as F

        records = records.where(F.col("offset") > self.after)
        if self.key is not ANY_KEY:
            records = records.where(F.col("key").eqNullSafe(F.lit(self.key)))
        if self.since is not None:
            # As a literal, a time before 1582 would become another one.
            records = records.where(F.col("timestamp") >= F.timestamp_micros(F.lit(microseconds(self.since))))
        if self.tail is not None:
            records = records.orderBy(F.desc("offset")).limit(self.tail)
        records = records.orderBy("offset")
        return [row.asDict() for row in (records if self.limit is None else records.limit(self.limit)).collect()]


class Recorded(Frames):
    """A handle of a topic, a changelog or a channel: its records in order."""

    __slots__ = ()

    def records(
        self,
        limit: int | None = None,
        *,
        tail: int | None = None,
        key: Any = ANY_KEY,
        since: datetime | None = None,
        after: int = -1,
    ) -> list[dict[str, Any]]:
        """The records in order, from the start, at most ``limit``; or the last ones, as many as ``tail``.

        Only those of a ``key``, ``since`` a time, or with an offset greater than ``after``.
        """
        return self._read(
            Wanted(limit, tail, key if key is ANY_KEY or key is None else self._stored_key(key), since, after)
        )

    def to_arrow(self) -> pa.Table:
        """The records as a table with the columns of ``records``; types are inferred from them.

        Timestamps are times in milliseconds, headers a list of names and texts.
        """
        records = self.records()
        names = dict.fromkeys(name for record in records for name in record)
        columns: dict[str, list[Any]] = {name: [record.get(name) for record in records] for name in names}
        if "headers" in columns:
            columns["headers"] = [[{"key": k, "value": v} for k, v in one.items()] for one in columns["headers"]]
        found = table_of(columns)
        if "timestamp" not in columns:
            return found
        times = pa.array(columns["timestamp"], pa.timestamp("ms", "UTC"))
        return found.set_column(found.schema.get_field_index("timestamp"), "timestamp", times)

    @property
    def end(self) -> int:
        """The greatest offset that is taken by now, for ``after``; -1 where there is no table."""
        spark, delta, table = self._place
        return end_of(delta.newest(spark, table).version) if delta.exists(spark, table) else -1

    @property
    def _place(self) -> tuple[SparkSession, Tables, str]:
        """The tables with the name of that of the records, and the session for them."""
        raise NotImplementedError

    def _stored_key(self, key: Any) -> bytes | str | None:
        """A key as the table stores it."""
        raise NotImplementedError

    def _read(self, wanted: Wanted) -> list[dict[str, Any]]:
        raise NotImplementedError

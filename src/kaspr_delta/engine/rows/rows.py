"""Rows on their way through a batch: held on the driver while they are not many, else left to Spark.

Most batches touch little. Their rows are brought to the driver once and sent back with statements, a few as literals,
more as rows that are sent around, so that every later step sees the same rows without computing them again, and Python
functions run without starting workers. A large batch stays a plan, which Spark runs once, in the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.rows.planning import files_read
from kaspr_delta.spec.ddl import columns_of_json
from kaspr_delta.storage.arrow_types import arrow_schema_of
from kaspr_delta.storage.spark.frames import collected, frame_of
from kaspr_delta.storage.spark.look_up import having
from kaspr_delta.storage.tables import Frame, Scan, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Keys: TypeAlias = "DataFrame | Collection[str] | None"
"""The keys of rows to look up: a DataFrame with a column ``key``, known texts, or None for all rows."""

ArrowFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

FEW_ROWS = 2_000
FEW_BYTES = 4 << 20
# The most rows and bytes of a step on the driver. Up to there shuffles, Python workers and reading back cost more time
# than the driver takes; measured: with 100,000 rows no longer.
SOME_ROWS = 20_000
SOME_BYTES = 16 << 20
# The same where the inputs of a step are on the driver already, which bounds its bytes.
MANY_ROWS = 200_000
MANY_BYTES = 64 << 20
# The same for rows of a log, which have more columns, where a native merge replaces one by Spark.
MOST_BYTES_BROUGHT = 128 << 20


@dataclass(frozen=True)
class Rows:
    """Rows as a DataFrame and, if they are few, as an Arrow table on the driver; then the DataFrame is made lazily."""

    given: DataFrame | Callable[[], DataFrame]
    table: pa.Table | None = None
    # The number of files that were read to collect them, if it was counted.
    files: int = 0
    # The session of a DataFrame that is not made yet.
    session: SparkSession | None = None
    # The scan that reads them, if they are read back from a table.
    scan: Scan | None = None

    @cached_property
    def df(self) -> DataFrame:
        """The rows in Spark."""
        return self.given() if callable(self.given) else self.given

    @property
    def spark(self) -> SparkSession:
        """The session of the rows."""
        return self.session or self.df.sparkSession

    @classmethod
    def held(cls, spark: SparkSession, table: pa.Table) -> Rows:
        """Rows of an Arrow table on the driver."""
        return cls(partial(frame_of, spark, table), table, session=spark)

    @classmethod
    def none(cls, spark: SparkSession, columns: str = "key STRING") -> Rows:
        """No rows, with these columns; no Spark action."""
        return cls(spark.createDataFrame([], columns), pa.table({}))

    @classmethod
    def of(cls, df: DataFrame, limit: int = FEW_ROWS, limit_bytes: int = FEW_BYTES, *, counted: bool = False) -> Rows:
        """Collect the rows if they are within the limits; one Spark action. ``counted``: count the files it reads."""
        wanted = df.limit(limit + 1)
        files = files_read(wanted) if counted else 0
        table = collected(wanted)
        if table.num_rows > limit or table.nbytes > limit_bytes:
            return cls(df)
        return replace(cls.held(df.sparkSession, table), files=files)

    @classmethod
    def of_all(cls, some: Sequence[Rows]) -> Rows:
        """The union of several; on the driver if all of them are. No Spark action."""
        if len(some) == 1:
            return some[0]
        tables = [rows.table for rows in some if rows.table is not None and not rows.empty]
        if all(rows.here for rows in some) and tables:
            return cls.held(some[0].spark, pa.concat_tables(tables, promote_options="default"))
        return cls(union_of(rows.df for rows in some if not rows.empty))

    def brought(self) -> Rows:
        """The rows on the driver, if they can be read back there without Spark and are not too many."""
        if self.scan is None or not self.scan.reads_files:
            return self
        found = self.scan.rows(self.df.columns, MANY_ROWS + 1)
        if found.num_rows > MANY_ROWS or found.nbytes > MOST_BYTES_BROUGHT:
            return self
        return replace(Rows.held(self.spark, found.cast(arrow_schema_of(self.df.schema))), scan=self.scan)

    @property
    def frame(self) -> Frame:
        """The rows to write: on the driver if they are there."""
        return self.df if self.table is None else self.table

    def frame_made(self, made: DataFrame) -> Frame:
        """Rows to write that were made from these: collected if these are on the driver."""
        return made if self.table is None else collected(made)

    @property
    def here(self) -> bool:
        """Whether the rows are on the driver."""
        return self.table is not None

    @property
    def few(self) -> bool:
        """Whether the rows are on the driver and few enough to be literals in a statement."""
        return self.table is not None and self.table.num_rows <= FEW_ROWS

    @property
    def some(self) -> bool:
        """Whether the rows are on the driver and few enough for the next step to run there."""
        return self.table is not None and self.table.num_rows <= SOME_ROWS

    @property
    def empty(self) -> bool:
        """Whether it is known that there is no row."""
        return self.table is not None and self.table.num_rows == 0

    def count(self) -> int:
        """The number of rows; no Spark action for rows on the driver."""
        return self.df.count() if self.table is None else self.table.num_rows

    def values(self, column: str, **those: str | None) -> list[str]:
        """The distinct values in a column of the rows that have these values; NULL is left out.

        Raises LookupError for rows that are not on the driver.
        """
        if self.table is None:
            msg = "these rows are not on the driver"
            raise LookupError(msg)
        values: list[str] = _with(self.table, those)[column].drop_null().unique().to_pylist()
        return values

    def where(self, **those: str) -> Rows:
        """The rows with these values."""
        from pyspark.sql import functions as F

        rows = self.df
        for name, value in those.items():
            rows = rows.where(F.col(name) == value)
        return Rows(rows, None if self.table is None else _with(self.table, those))

    def select(self, *columns: str) -> Rows:
        """These columns of the rows."""
        return Rows(self.df.select(*columns), None if self.table is None else self.table.select(columns))

    def count_by(self, *columns: str) -> dict[tuple[str, ...], int]:
        """The number of rows by combination of values; no Spark action for rows on the driver or in files.

        Without rows the columns need not exist.
        """
        if self.empty:
            return {}
        if self.scan is not None:
            return self.scan.count_by(columns)
        if self.table is not None:
            counted = self.table.select(columns).group_by(list(columns)).aggregate([([], "count_all")]).to_pylist()
        else:
            from pyspark.sql import functions as F

            rows = self.df.groupBy(*columns).agg(F.count("*").alias("count_all")).collect()
            counted = [row.asDict() for row in rows]
        return {tuple(row[column] for column in columns): row["count_all"] for row in counted}

    def with_columns(self, function: ArrowFunction, added: str) -> Rows:
        """Apply a function over Arrow batches that keeps all columns and adds some, given as DDL."""
        kept = columns_of_json(self.df.schema.jsonValue()["fields"])
        return self.map_arrow(function, f"{', '.join(map(str, kept))}, {added}")

    def map_arrow(self, function: ArrowFunction, schema: str) -> Rows:
        """Apply a function over Arrow batches: on the driver if the rows are there, else in Spark's Python workers."""
        if self.table is None:
            return Rows(self.df.mapInArrow(function, schema))
        spark = self.spark
        batches = list(function(self.table.to_batches()))
        if not batches:
            return Rows.held(spark, collected(spark.createDataFrame([], schema)))
        return Rows.held(spark, pa.Table.from_batches(batches))


def _with(rows: pa.Table, those: Mapping[str, str | None]) -> pa.Table:
    for name, value in those.items():
        rows = rows.filter(pc.is_null(rows[name]) if value is None else pc.equal(rows[name], value))
    return rows


def union_of(frames: Iterable[DataFrame]) -> DataFrame:
    """The union of DataFrames, at least one; a missing column is NULL."""
    return reduce(lambda one, more: one.unionByName(more, allowMissingColumns=True), frames)


def stored_rows(
    delta: Tables, spark: SparkSession, table: str, keys: Collection[str] | None, version: int | None = None
) -> Rows:
    """The stored rows of known keys, which the table stores as text, or of all keys."""
    if keys is None:
        return Rows(delta.read(spark, table, version))
    found = delta.look_up(spark, table, {"key": keys}, version)
    return Rows.held(spark, found) if isinstance(found, pa.Table) else Rows(found)


def among(rows: DataFrame, keys: Keys, place: Sequence[str] = ("key",)) -> DataFrame:
    """The rows of these keys; of a DataFrame of keys by the columns in ``place``."""
    if keys is None:
        return rows
    if isinstance(keys, Collection):
        return having(rows, {"key": keys})
    return rows.join(keys.select(*place), list(place), "left_semi")


def merged(few: DataFrame) -> DataFrame:
    """A hint for few rows: a sort-merge join, because a broadcast would be a Spark job of its own."""
    return few.hint("merge")

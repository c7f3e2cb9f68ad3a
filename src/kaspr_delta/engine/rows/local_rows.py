"""Rows on the driver: an Arrow table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.rows.rows import ArrowFunction, How, Rows, ValueFunction
from kaspr_delta.engine.rows.sequence import seq_of_rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.storage.arrow_types import arrow_schema, arrow_schema_of, collected, frame_of
from kaspr_delta.storage.lazy_session import is_running, runs_here
from kaspr_delta.storage.limits import Limits, Size
from kaspr_delta.storage.tables import Frame, Scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ADAPTIVE = "spark.sql.adaptive.enabled"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
# With more shuffle partitions adaptive planning pays off even for few rows.
_FEW_PARTITIONS = 8


@dataclass(frozen=True)
class LocalRows:
    """Implements Rows. The DataFrame is made when it is asked for."""

    spark: SparkSession
    table: pa.Table
    scan: Scan | None = None

    @classmethod
    def none(cls, spark: SparkSession, columns: str = "key STRING") -> LocalRows:
        return cls(spark, arrow_schema(columns).empty_table())

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    @property
    def frame(self) -> Frame:
        return self.table

    @cached_property
    def df(self) -> DataFrame:
        return frame_of(self.spark, self.table)

    @property
    def max_rows(self) -> int:
        return int(self.table.num_rows)

    def filter(self, condition: nw.Expr) -> Rows:
        return self._applied(lambda rows: rows.filter(condition))

    def select(self, *columns: str | nw.Expr) -> Rows:
        return self._applied(lambda rows: rows.select(*columns))

    def with_columns(self, **columns: nw.Expr) -> Rows:
        return self._applied(lambda rows: rows.with_columns(**columns))

    def derive(self, name: str, function: ValueFunction, of: str) -> Rows:
        if function.array is None:
            msg = "only Spark has this function"
            raise TypeError(msg)
        return self._with(self.table.append_column(name, function.array(self.table[of])))

    def drop(self, *columns: str) -> Rows:
        return self._with(self.table.drop_columns(list(columns)))

    def pack(self, name: str, columns: Iterable[str], fields: Iterable[str], condition: str) -> Rows:
        parts = [self.table[column].combine_chunks() for column in columns]
        absent = pc.invert(pc.fill_null(self.table[condition].combine_chunks(), fill_value=False))
        packed = pa.StructArray.from_arrays(parts, names=list(fields), mask=absent)
        return self._with(self.table.drop_columns([*columns, condition]).append_column(name, packed))

    def extend(
        self, function: ArrowFunction, added: str, in_spark: Callable[[DataFrame], DataFrame] | None = None
    ) -> Rows:
        return self._mapped(function, pa.schema([*self.table.schema, *arrow_schema(added)]))

    def map(self, function: ArrowFunction, schema: str) -> Rows:
        return self._mapped(function, arrow_schema(schema))

    def _mapped(self, function: ArrowFunction, schema: pa.Schema) -> Rows:
        batches = list(function(self.table.to_batches()))
        return self._with(pa.Table.from_batches(batches) if batches else schema.empty_table())

    def join(self, other: Rows, on: str | Sequence[str], how: How = "left") -> Rows:
        if not isinstance(other, LocalRows):
            return self.in_spark().join(other, on, how)
        # Arrow's own join takes no nested columns.
        if isinstance(on, str):
            found = pc.index_in(self.table[on], value_set=other.table[on], skip_nulls=True)
        else:
            found = _index_in(self.table.select(on), other.table.select(on))
        if how == "left_semi":
            return self._with(self.table.filter(found.is_valid()))
        if how == "left_anti":
            return self._with(self.table.filter(found.is_null()))
        rows = self.table
        if how == "inner":
            rows, found = rows.filter(found.is_valid()), found.drop_null()
        for name in other.columns:
            if name not in ([on] if isinstance(on, str) else on):
                rows = rows.append_column(name, other.table[name].take(found))
        return self._with(rows)

    def union(self, other: Rows) -> Rows:
        if not isinstance(other, LocalRows):
            return self.in_spark().union(other)
        # A column that one of them lacks is NULL there, even if the other one never has NULL in it.
        nullable = [table.cast(_nullable(table.schema)) for table in (self.table, other.table)]
        return self._with(pa.concat_tables(nullable, promote_options="default"))

    def newest(self, on: Sequence[str], order: Sequence[str], count: str | None = None) -> Rows:
        return self._with(last_of_each_key(_sorted(self.table, order), on, count))

    def each(self, *cases: tuple[nw.Expr, Mapping[str, nw.Expr]]) -> Rows:
        parts = (
            self.filter(condition).select(*(value.alias(name) for name, value in of.items())) for condition, of in cases
        )
        return reduce(lambda one, more: one.union(more), parts)

    def so_far(self, name: str, of: str, by: Sequence[str], order: Sequence[str]) -> Rows:
        rows = _sorted(self.table, order)
        groups = zip(*(rows[column].to_pylist() for column in by), strict=True)
        greatest, found = dict[tuple[Any, ...], Any](), list[Any]()
        for group, value in zip(groups, rows[of].to_pylist(), strict=True):
            if value is not None:
                greatest[group] = max(greatest.get(group, value), value)
            found.append(greatest.get(group))
        return self._with(rows.append_column(name, pa.array(found, rows.schema.field(of).type)))

    def least(self, column: str) -> Any:
        return pc.min(self.table[column]).as_py()

    def numbered(self, *order: str) -> Rows:
        rows = _sorted(self.table, order)
        return self._with(rows.append_column("seq", pa.array(range(rows.num_rows), pa.int64())))

    def made(self, df: DataFrame, most: Size | None = None) -> Rows:
        return self._with(collected(df)) if most is None else rows_within(df, most)

    def in_spark(self) -> Rows:
        return SparkRows(self.df, self.max_rows)

    def spread(self, df: DataFrame, *columns: str) -> DataFrame:
        return df.coalesce(1)

    def collect(self) -> pa.Table:
        return self.table

    def count(self) -> int:
        return self.max_rows

    def count_by(self, *columns: str) -> dict[tuple[Any, ...], int]:
        if not self.table.num_rows:
            return {}
        counted = self.table.select(columns).group_by(list(columns)).aggregate([([], "count_all")]).to_pylist()
        return {tuple(row[column] for column in columns): row["count_all"] for row in counted}

    def distinct(self, column: str) -> list[str]:
        """The distinct values in a column, without NULL."""
        return list(self.table[column].drop_null().unique().to_pylist())

    def _applied(self, verb: Callable[[nw.DataFrame[Any]], nw.DataFrame[Any]]) -> LocalRows:
        if self.table.num_rows:
            return self._with(verb(nw.from_native(self.table, eager_only=True)).to_native())
        # narwhals makes no constants for a table without rows.
        blank = pa.table({field.name: pa.nulls(1, field.type) for field in self.table.schema})
        return self._with(verb(nw.from_native(blank, eager_only=True)).to_native().slice(0, 0))

    def _with(self, table: pa.Table) -> LocalRows:
        return LocalRows(self.spark, table)


def last_of_each_key(rows: pa.Table, on: Sequence[str], count: str | None = None) -> pa.Table:
    """The last row with each value of the columns ``on``; ``count`` adds a column: how many rows had it."""
    numbers = rows.select(on).append_column("n", pa.array(range(rows.num_rows), pa.int64()))
    last = numbers.group_by(list(on)).aggregate([("n", "max"), ("n", "count")])
    found = rows.take(last["n_max"])
    return found if count is None else found.append_column(count, last["n_count"])


def table_within(rows: Rows, most: Size) -> pa.Table | None:
    """The rows as an Arrow table; None if they are in Spark, and more. Rows with a scan are read by it."""
    if isinstance(rows, LocalRows):
        return rows.table
    limit = most.rows + 1
    found = collected(rows.df.limit(limit)) if rows.scan is None else rows.scan.rows(rows.columns, limit)
    return found if most.fits(found) else None


def small_together(most: Size, *several: Rows) -> tuple[Rows, ...]:
    """All rows in Spark if they are more than ``most`` together, else as they are."""
    if sum(rows.max_rows or 0 for rows in several) <= most.rows:
        return several
    return tuple(rows.in_spark() if isinstance(rows, LocalRows) else rows for rows in several)


def rows_within(df: DataFrame, most: Size) -> Rows:
    """The rows of a DataFrame, on the driver if there are no more; one Spark action."""
    table = collected(df.limit(most.rows + 1))
    return LocalRows(df.sparkSession, table) if most.fits(table) else SparkRows(df)


def few_or_all(scan: Scan, spark: SparkSession, columns: Sequence[str], most: Size) -> Rows:
    """Columns of the rows of a scan: on the driver if they are no more and no Spark job is needed, else in Spark."""
    if scan.reads_files:
        found = scan.rows(columns, most.rows + 1)
        if most.fits(found):
            return LocalRows(spark, found)
    return SparkRows(scan.df.select(*columns))


def fetched(rows: Rows, most: Size) -> Rows:
    """Rows on the driver if there are no more, else in Spark; one Spark action unless they are on the driver."""
    if isinstance(rows, LocalRows):
        return rows if most.fits(rows.table) else rows.in_spark()
    return rows_within(rows.df, most)


def are_few(limits: Limits, *several: Rows) -> bool:
    """Whether all rows are on the driver, and few together."""
    local = [rows.count() for rows in several if isinstance(rows, LocalRows)]
    return len(local) == len(several) and sum(local) <= limits.few.rows


def set_adaptive(spark: SparkSession, limits: Limits, *rows: Rows) -> None:
    """Switch adaptive planning off if all these rows, or none, are few and on the driver; else switch it on.

    Adaptive planning makes a job of every shuffle and every broadcast, to learn how many rows there are. If they are
    known to be few, a statement is one job without it. ``spark`` is the session of a streaming query, which has its own
    copy of the settings. Sessions of Spark Connect, and those with many shuffle partitions, stay as they are.
    """
    # Without a session nothing is planned. Queries of Spark Connect share their settings.
    if not is_running(spark) or not runs_here(spark):
        return
    partitions = str(spark.conf.get(_SHUFFLE_PARTITIONS))
    if not partitions.isdigit() or int(partitions) > _FEW_PARTITIONS:  # Databricks has "auto"
        return
    wanted = str(not are_few(limits, *rows)).lower()
    if spark.conf.get(_ADAPTIVE) != wanted:
        spark.conf.set(_ADAPTIVE, wanted)


def read_back(rows: Rows, most: Size) -> Rows:
    """Rows of a log on the driver, if it can read them there without Spark and they are not more."""
    if isinstance(rows, LocalRows) or rows.scan is None or not rows.scan.reads_files:
        return rows
    found = table_within(rows, most)
    if found is None:
        return rows
    return LocalRows(rows.spark, found.cast(arrow_schema_of(rows.df.schema)), rows.scan)


def union_all(several: Sequence[Rows]) -> Rows:
    """The rows of all, which are at least one; a missing column is NULL. Those without rows add no columns."""
    return reduce(lambda one, more: one.union(more), [rows for rows in several if rows.max_rows != 0] or several[:1])


def made_as(given: Rows, made: Rows) -> Rows:
    """Rows that were ``made`` of given ones: they come to the driver if the given ones are there."""
    return made if isinstance(made, LocalRows) else given.made(made.df)


def numbered_as(given: Rows, made: Rows, order: Sequence[str], within: Sequence[str], most: Size | None = None) -> Rows:
    """Rows that were ``made`` of given ones, with a column ``seq``, in order of some columns: where the given ones are.

    In Spark they are in that order among the rows with equal columns ``within``. Spark's come to the driver up to
    ``most``, if the given ones are there.
    """
    if isinstance(made, LocalRows):
        return made.numbered(*order)
    rows = given.spread(made.df, *within).sortWithinPartitions(*order)
    return given.made(rows.withColumn("seq", seq_of_rows()), most)


def _index_in(rows: pa.Table, among: pa.Table) -> pa.Array:
    """The number of the row that is equal, for each of the rows; NULL if there is none. NULL equals nothing."""
    places = {tuple(row.values()): place for place, row in enumerate(among.to_pylist())}
    found = (None if None in row.values() else places.get(tuple(row.values())) for row in rows.to_pylist())
    return pa.array(found, pa.int32())


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(nullable=True) for field in schema])


def _sorted(rows: pa.Table, order: Sequence[str]) -> pa.Table:
    """Rows in order of some columns, NULL first as in Spark."""
    keys = {f"{kind} {name}": of for name in order for kind, of in (("a", pc.is_valid(rows[name])), ("b", rows[name]))}
    return rows.take(pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys]))

"""Rows in Spark: a plan that runs where it is written or counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa

from kaspr_delta.engine.rows.rows import ArrowFunction, How, Rows, ValueFunction
from kaspr_delta.engine.rows.sequence import MOST_TASKS, seq_of_rows
from kaspr_delta.spec.ddl import columns_of_json
from kaspr_delta.storage.arrow_types import collected
from kaspr_delta.storage.limits import Size
from kaspr_delta.storage.tables import Frame, Scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class SparkRows:
    """Implements Rows."""

    df: DataFrame
    max_rows: int | None = None
    scan: Scan | None = None

    @property
    def spark(self) -> SparkSession:
        return self.df.sparkSession

    @property
    def columns(self) -> list[str]:
        return self.df.columns

    @property
    def frame(self) -> Frame:
        return self.df

    def filter(self, condition: nw.Expr) -> Rows:
        return self._with(nw.from_native(self.df).filter(condition).to_native())

    def select(self, *columns: str | nw.Expr) -> Rows:
        if all(isinstance(one, str) for one in columns):  # narwhals would read the schema: on Spark Connect a request
            return replace(self, df=self.df.select(*columns))  # type: ignore[arg-type]
        return self._with(nw.from_native(self.df).select(*columns).to_native())

    def with_columns(self, **columns: nw.Expr) -> Rows:
        return self._with(nw.from_native(self.df).with_columns(**columns).to_native())

    def derive(self, name: str, function: ValueFunction, of: str) -> Rows:
        return self._with(self.df.withColumn(name, function.column(self.df[of])))

    def drop(self, *columns: str) -> Rows:
        return self._with(self.df.drop(*columns))

    def pack(self, name: str, columns: Iterable[str], fields: Iterable[str], condition: str) -> Rows:
        from pyspark.sql import functions as F

        packed = [F.col(column).alias(field) for column, field in zip(columns, fields, strict=True)]
        rows = self.df.withColumn(name, F.when(F.col(condition), F.struct(*packed)))
        return self._with(rows.drop(*columns, condition))

    def extend(
        self, function: ArrowFunction, added: str, in_spark: Callable[[DataFrame], DataFrame] | None = None
    ) -> Rows:
        if in_spark is not None:
            return self._with(in_spark(self.df))
        kept = columns_of_json(self.df.schema.jsonValue()["fields"])
        return self._with(self.df.mapInArrow(function, f"{', '.join(map(str, kept))}, {added}"))

    def map(self, function: ArrowFunction, schema: str) -> Rows:
        return SparkRows(self.df.mapInArrow(function, schema))

    def join(self, other: Rows, on: str | Sequence[str], how: How = "left") -> Rows:
        from pyspark.sql import functions as F

        keys = on if isinstance(on, str) else [*on]
        # A broadcast avoids a shuffle, which sends all rows of a hot key to one task.
        return self._with(self.df.join(other.df if other.max_rows is None else F.broadcast(other.df), keys, how))

    def union(self, other: Rows) -> Rows:
        if other.max_rows == 0:
            return self
        max_rows = None if self.max_rows is None or other.max_rows is None else self.max_rows + other.max_rows
        return replace(self, df=self.df.unionByName(other.df, allowMissingColumns=True), max_rows=max_rows, scan=None)

    def newest(self, on: Sequence[str], order: Sequence[str], count: str | None = None) -> Rows:
        from pyspark.sql import functions as F

        rest = [name for name in self.columns if name not in {*on, *order}]
        greatest = [F.max(F.struct(*order)).alias("_order")]
        if rest:
            greatest.append(F.max_by(F.struct(*rest), F.struct(*order)).alias("_rest"))
        counted = [] if count is None else [F.count("*").alias(count)]
        rows = self.df.groupBy(*on).agg(*greatest, *counted)
        of = [f"_order.{name}" for name in order] + [f"_rest.{name}" for name in rest]
        return self._with(rows.select(*on, *of, *([] if count is None else [count])))

    def each(self, *cases: tuple[nw.Expr, Mapping[str, nw.Expr]]) -> Rows:
        from pyspark.sql import functions as F

        # One array per row instead of a union: so the rows are computed once.
        rows, made = self.df, []
        for number, (condition, of) in enumerate(cases):
            named = {f"_{number}_{name}": value for name, value in of.items()}
            rows = nw.from_native(rows).with_columns(**named, **{f"_{number}": condition}).to_native()
            struct = F.struct(*(F.col(f"_{number}_{name}").alias(name) for name in of))
            made.append(F.when(F.col(f"_{number}"), struct))
        return self._with(rows.select(F.explode(F.array_compact(F.array(*made))).alias("_row")).select("_row.*"))

    def so_far(self, name: str, of: str, by: Sequence[str], order: Sequence[str]) -> Rows:
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window

        until_now = Window.partitionBy(*by).orderBy(*order).rowsBetween(Window.unboundedPreceding, 0)
        return self._with(self.df.withColumn(name, F.max(of).over(until_now)))

    def least(self, column: str) -> Any:
        from pyspark.sql import functions as F

        return collected(self.df.agg(F.min(column)))[0][0].as_py()

    def numbered(self, *order: str) -> Rows:
        ordered = self.df.coalesce(MOST_TASKS).sortWithinPartitions(*order)
        return self._with(ordered.withColumn("seq", seq_of_rows()))

    def made(self, df: DataFrame, most: Size | None = None) -> Rows:
        return SparkRows(df)

    def spread(self, df: DataFrame, *columns: str) -> DataFrame:
        return df.repartition(*columns).coalesce(MOST_TASKS) if columns else df

    def collect(self) -> pa.Table:
        return collected(self.df)

    def count(self) -> int:
        return self.df.count()

    def count_by(self, *columns: str) -> dict[tuple[Any, ...], int]:
        return (self.scan or Scan(lambda: self.df)).count_by(columns)

    def _with(self, df: DataFrame) -> SparkRows:
        return replace(self, df=df, scan=None)

"""Rows on their way through a batch: on the driver (``LocalRows``) or in Spark (``SparkRows``), with the same verbs.

Rows on the driver are Arrow tables. Rows in Spark are a plan, which Spark runs where it is written, counted or
collected. Where both are joined, Spark goes on. ``docs/design/rows.md`` tells when a batch is on which side.

Conditions and columns are expressions of narwhals, which run on Arrow tables and on DataFrames alike. A function over
Arrow batches runs on the driver or in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import narwhals as nw
import pyarrow as pa

from kaspr_delta.storage.limits import Size
from kaspr_delta.storage.tables import Frame, Scan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ArrowFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

How: TypeAlias = Literal["left", "inner", "left_semi", "left_anti"]
"""A kind of join, by Spark's name for it."""


@dataclass(frozen=True, slots=True)
class ValueFunction:
    """A function of a value that narwhals has no expression for: ``column`` in Spark, ``array`` on the driver.

    Without ``array`` only Spark has it: rows come to the driver after it.
    """

    column: Callable[[Column], Column]
    array: Callable[[pa.ChunkedArray], pa.Array | pa.ChunkedArray] | None = None


class Rows(Protocol):
    """Rows with columns. Each verb returns other rows."""

    @property
    def spark(self) -> SparkSession:
        """The session of the rows."""

    @property
    def scan(self) -> Scan | None:
        """The scan that reads the rows, if they are read back from a table; it may have more columns."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""

    @property
    def frame(self) -> Frame:
        """The rows to write: an Arrow table if they are on the driver."""

    @property
    def df(self) -> DataFrame:
        """The rows in Spark."""

    @property
    def max_rows(self) -> int | None:
        """An upper bound of their number, if one is known; of rows in Spark only if executors can hold them."""

    def filter(self, condition: nw.Expr) -> Rows:
        """The rows for which a condition holds; not those for which it is NULL."""

    def select(self, *columns: str | nw.Expr) -> Rows:
        """These columns, by name or by expression."""

    def with_columns(self, **columns: nw.Expr) -> Rows:
        """Add columns, or replace those of the same name."""

    def derive(self, name: str, function: ValueFunction, of: str) -> Rows:
        """Add the function of a column. Raises TypeError if the rows are on the driver and only Spark has it."""

    def drop(self, *columns: str) -> Rows:
        """All columns but these."""

    def pack(self, name: str, columns: Iterable[str], fields: Iterable[str], condition: str) -> Rows:
        """Replace columns, and the boolean column ``condition``, by one STRUCT; NULL unless the condition holds."""

    def extend(
        self, function: ArrowFunction, added: str, in_spark: Callable[[DataFrame], DataFrame] | None = None
    ) -> Rows:
        """Apply a function over Arrow batches that keeps all columns and adds some, given as DDL.

        ``in_spark`` is the same function as columns of Spark, if it has them.
        """

    def map(self, function: ArrowFunction, schema: str) -> Rows:
        """Apply a function over Arrow batches that returns rows with these columns, given as DDL."""

    def join(self, other: Rows, on: str | Sequence[str], how: How = "left") -> Rows:
        """Join with rows that have each value of the columns ``on`` at most once. NULL equals nothing."""

    def union(self, other: Rows) -> Rows:
        """The rows of both; a column that one of them lacks is NULL. Columns of an empty ``other`` may be lost."""

    def newest(self, on: Sequence[str], order: Sequence[str], count: str | None = None) -> Rows:
        """The greatest row of each key ``on`` by the columns of ``order``, NULL first; ``count``: how many it had."""

    def each(self, *cases: tuple[nw.Expr, Mapping[str, nw.Expr]]) -> Rows:
        """For each row, one row with the columns of each case whose condition holds."""

    def so_far(self, name: str, of: str, by: Sequence[str], order: Sequence[str]) -> Rows:
        """Add the greatest value of a column so far, among the rows of a group ``by``, in order of some columns."""

    def least(self, column: str) -> Any:
        """The least value of a column, without NULL; None if there is none. A Spark action unless on the driver."""

    def numbered(self, *order: str) -> Rows:
        """The rows with a column ``seq`` (see ``sequence``), in order of some columns; in Spark, of a partition."""

    def made(self, df: DataFrame, most: Size | None = None) -> Rows:
        """Rows that Spark makes from these. If these are on the driver they are collected, up to ``most``."""

    def spread(self, df: DataFrame, *columns: str) -> DataFrame:
        """Rows that Spark makes from these: in one partition if these are on the driver, else by columns, if given."""

    def collect(self) -> pa.Table:
        """The rows as an Arrow table; a Spark action unless they are on the driver."""

    def count(self) -> int:
        """The number of rows; a Spark action unless they are on the driver."""

    def count_by(self, *columns: str) -> dict[tuple[Any, ...], int]:
        """The number of rows by combination of values. Without rows the columns need not exist."""


def union_of(frames: Iterable[DataFrame]) -> DataFrame:
    """The union of DataFrames, at least one; a missing column is NULL."""
    return reduce(lambda one, more: one.unionByName(more, allowMissingColumns=True), frames)


TRUE, FALSE = nw.lit(value=True), nw.lit(value=False)


def same(one: str, other: str) -> nw.Expr:
    """Whether two columns are equal, or both NULL: SQL's ``IS NOT DISTINCT FROM``."""
    first, second = nw.col(one), nw.col(other)
    return nw.coalesce(first == second, FALSE) | (first.is_null() & second.is_null())


def exists(column: str) -> nw.Expr:
    """Whether a column is not NULL."""
    return ~nw.col(column).is_null()


def none_like(column: str) -> nw.Expr:
    """NULL, of the type of a column."""
    # Not by a constant condition: older versions of narwhals want a constant value then.
    return nw.when(~exists(column)).then(nw.col(column))


def first_of(*cases: tuple[nw.Expr, nw.Expr], otherwise: nw.Expr) -> nw.Expr:
    """The value of the first case whose condition holds: SQL's ``CASE``. A condition that is NULL does not hold."""
    # Not by `when` alone: older versions of narwhals give NULL where the condition is NULL.
    holds = [(nw.coalesce(condition, FALSE), value) for condition, value in cases]
    return reduce(lambda rest, case: nw.when(case[0]).then(case[1]).otherwise(rest), reversed(holds), otherwise)


def later(one: nw.Expr, other: nw.Expr) -> nw.Expr:
    """The later of two times; NULL is earlier than any."""
    # Not by `or`: older versions of narwhals give NULL for true or NULL.
    return first_of((other.is_null(), one), (one >= other, one), otherwise=other)


def text(value: str | None) -> nw.Expr:
    """A constant text, or NULL."""
    return nw.lit(value, nw.String)


def with_problem(  # noqa: PLR0913  the fields of a problem
    rows: Rows, condition: nw.Expr, *, reason: nw.Expr, detail: nw.Expr, value: nw.Expr, name: str = "problem"
) -> Rows:
    """Add the problem of the rows for which a condition holds, unless they have one already.

    The column is of the type of ``selector.ARROW_PROBLEM``; it is made if it is not there.
    """
    # Each field inside a condition: a text that is never NULL makes a type without NULL in Spark.
    fields = {"reason": reason, "detail": detail, "value": value}
    each = {f"_{field}": nw.when(condition).then(of) for field, of in fields.items()}
    packed = rows.with_columns(**each, _has_problem=condition).pack("_problem", each, fields, "_has_problem")
    problems = [nw.col(name)] if name in rows.columns else []
    return packed.with_columns(**{name: nw.coalesce(*problems, nw.col("_problem"))}).drop("_problem")

"""Expressions of narwhals that several rules share. They run on Arrow tables and in Spark alike."""

from __future__ import annotations

from functools import reduce

import narwhals as nw

from kaspr_delta.engine.rows.rows import Rows

TRUE, FALSE = nw.lit(value=True), nw.lit(value=False)


def same(one: str, other: str) -> nw.Expr:
    """Whether two columns are equal, or both NULL: SQL's ``IS NOT DISTINCT FROM``."""
    first, second = nw.col(one), nw.col(other)
    return nw.coalesce(first == second, FALSE) | (first.is_null() & second.is_null())


def exists(column: str) -> nw.Expr:
    """Whether a column is not NULL."""
    return ~nw.col(column).is_null()


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

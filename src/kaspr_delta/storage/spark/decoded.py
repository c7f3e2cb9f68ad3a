"""JSON text columns as typed columns for people; the types are inferred from the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.storage.spark.variant_types import column_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def by_key(rows: DataFrame, *further: str) -> DataFrame:
    """Rows ordered by keys, which are JSON text: numbers by value, then others by text.

    Rows of one key are ordered by ``further`` columns.
    """
    number = F.when(F.col("key").rlike("^[-0-9]"), F.col("key").try_cast("double"))
    return rows.orderBy(number.asc_nulls_last(), "key", *further)


def decoded(rows: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """Replace columns of JSON text by typed ones; a field whose type differs between rows is a VARIANT.

    Text that is not JSON is null.
    """
    if not columns:
        return rows
    types = rows.agg(*(F.schema_of_variant_agg(F.try_parse_json(column)).alias(column) for column in columns)).first()
    if types is None:
        return rows
    return rows.withColumns({column: _typed(column, types[column]) for column in columns})


def _typed(column: str, inferred: str | None):  # type: ignore[no-untyped-def]  # noqa: ANN202
    kind = None if inferred is None else column_type(inferred)
    if kind is None:
        return F.col(column)
    value = F.try_parse_json(column)
    return value if kind == "VARIANT" else F.try_variant_get(value, "$", kind)

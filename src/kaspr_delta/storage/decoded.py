"""JSON text columns as typed columns, for people who look at tables: the types are inferred from the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def decoded(rows: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """Replace columns of JSON text by typed ones; where rows disagree about a field's type it is a VARIANT."""
    if not columns:
        return rows
    types = rows.agg(*(F.schema_of_variant_agg(F.try_parse_json(column)).alias(column) for column in columns)).first()
    if types is None:
        return rows
    return rows.withColumns({column: _typed(column, types[column]) for column in columns})


def _typed(column: str, variant_schema: str | None):  # type: ignore[no-untyped-def]  # noqa: ANN202
    if variant_schema is None or variant_schema == "VOID":
        return F.col(column)
    if variant_schema == "VARIANT":
        return F.try_parse_json(column)
    # Spark names a variant's object type OBJECT, and a field that was always null VOID, which no column can have.
    schema = variant_schema.replace("OBJECT<", "STRUCT<").replace(": VOID", ": STRING").replace("<VOID>", "<STRING>")
    return F.try_variant_get(F.try_parse_json(column), "$", schema)

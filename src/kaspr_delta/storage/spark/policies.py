"""Row filters and column masks of tables in Unity Catalog, as its information schema lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.spark.sql_text import literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KINDS = {"row_filters": ("row filter", "filter_name"), "column_masks": ("column mask", "mask_name")}


def policies_on(spark: SparkSession, table: str) -> list[str]:
    """The row filters and column masks on a table, by its name in the catalog.

    Policies that follow tags are not listed there. Raises an error of Spark where there is no information schema.
    """
    (session,) = spark.sql("SELECT current_catalog() AS catalog, current_schema() AS schema").collect()
    here: list[str] = [session["catalog"], session["schema"]]
    parts = table.lower().split(".")
    catalog, schema, name = here[: 3 - len(parts)] + parts
    found = []
    for view, (kind, named) in _KINDS.items():
        rows = spark.sql(
            f"SELECT * FROM {quoted(catalog)}.information_schema.{view} WHERE table_name = {literal(name)}"
        ).collect()
        for row in rows:
            # Versions of Databricks name the columns in two ways.
            values = {column.lower(): value for column, value in row.asDict().items()}
            if schema in {values.get("table_schema"), values.get("schema_name")}:
                column = values.get("column_name")
                found.append(f"the {kind} {values[named]}" + (f" on {column}" if column else ""))
    return found

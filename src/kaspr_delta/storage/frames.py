"""Rows of this process as Spark has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows in one partition, with the columns of the table, also where there is no row."""
    from pyspark.sql.pandas.types import from_arrow_schema

    # Told, for Spark Connect asks for the columns of no rows, and times without a zone would be given one.
    columns = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    # In one piece: where one of several is empty, Spark reads nothing of what is behind it.
    return spark.createDataFrame(rows.combine_chunks() if rows.num_rows else [], columns).coalesce(1)

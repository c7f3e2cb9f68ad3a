"""Arrow tables on the driver as DataFrames, and the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kaspr_delta.storage.arrow_types import spark_schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A DataFrame of one partition. A table without rows keeps its columns."""
    # One chunk: Spark stops reading at an empty one.
    data = rows.combine_chunks() if rows.num_rows else []
    return spark.createDataFrame(data, spark_schema_of(rows.schema)).coalesce(1)


def collected(df: DataFrame) -> pa.Table:
    """The rows of a DataFrame as an Arrow table; one Spark action."""
    rows = df.toArrow()
    # Spark Connect 4.0 sends an empty result with text and list columns whose offset buffer is empty: to read it ends
    # the process.
    return rows if rows.num_rows else rows.schema.empty_table()

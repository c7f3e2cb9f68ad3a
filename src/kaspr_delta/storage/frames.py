"""Rows of this process as Spark has them, and rows of Spark in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kaspr_delta.storage.arrow_types import spark_schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows in one partition, with the columns of the table, also where there is no row."""
    # In one piece: where one of several is empty, Spark reads nothing of what is behind it.
    data = rows.combine_chunks() if rows.num_rows else []
    return spark.createDataFrame(data, spark_schema_of(rows.schema)).coalesce(1)


def collected(df: DataFrame) -> pa.Table:
    """The rows of a DataFrame in this process; one Spark action."""
    rows = df.toArrow()
    # An empty result of Spark Connect 4.0 has columns of texts and lists without the one offset that such a column has:
    # who looks at it reads memory that is not there.
    return rows if rows.num_rows else rows.schema.empty_table()

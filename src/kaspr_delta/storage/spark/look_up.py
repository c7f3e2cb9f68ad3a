"""Rows of a DataFrame by the texts in their columns."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import pyarrow as pa

from kaspr_delta.storage.arrow_types import frame_of
from kaspr_delta.storage.dialect import SPARK
from kaspr_delta.storage.limits import Limits

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kaspr_delta.storage.tables import Texts


def having(rows: DataFrame, texts: Texts, limits: Limits) -> DataFrame:
    """The rows that have one of the texts in one of the columns.

    Few texts stand in the statement: a join would take a Spark job to broadcast them, and Delta would read every file.
    """
    from pyspark.sql import functions as F

    if sum(map(len, texts.values())) <= limits.listed_texts:
        return rows.where(reduce(or_, (_is_one_of(name, some) for name, some in texts.items())))
    wanted = {name: _broadcast(rows.sparkSession, name, some) for name, some in texts.items()}
    if len(wanted) == 1:
        ((name, some),) = wanted.items()
        return rows.join(some, name, "left_semi")
    columns = rows.columns
    for name, some in wanted.items():
        rows = rows.join(some.withColumn(f"_found_by_{name}", F.lit(True)), name, "left")
    return rows.where(" OR ".join(f"_found_by_{name}" for name in wanted)).select(*columns)


def _broadcast(spark: SparkSession, column: str, texts: Collection[str]) -> DataFrame:
    from pyspark.sql import functions as F

    return F.broadcast(frame_of(spark, pa.table({column: pa.array(dict.fromkeys(texts), pa.string())})))


def _is_one_of(column: str, texts: Collection[str]) -> Column:
    """The condition that a column is one of some texts, which stand in the statement."""
    from pyspark.sql import functions as F

    # SQL text: for a literal PySpark calls the JVM.
    return F.expr(f"`{column}` IN {SPARK.texts(texts)}") if texts else F.lit(False)

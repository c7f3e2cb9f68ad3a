"""Dead letters: what could not be processed, kept with the reason, while everything else goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kaspr_delta.storage.delta import Delta
from kaspr_delta.storage.layout import DEAD_LETTERS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kaspr_delta.engine.checkpoint import BatchId

# What a row of a log tells of its failure, as storage/layout.py has it.
ARROW_PROBLEM = pa.struct([("reason", pa.string()), ("detail", pa.string()), ("value", pa.string())])


def problem(reason: str | Column, detail: Column, value: Column) -> Column:
    """What is wrong with a row, as a column of that type."""
    from pyspark.sql import functions as F

    fields = {"reason": F.lit(reason) if isinstance(reason, str) else reason, "detail": detail, "value": value}
    # Text that is certainly there makes a type that NULL does not fit, and most rows have no problem.
    return F.struct(*(F.nullif(field, F.lit("")).alias(name) for name, field in fields.items()))


def fold_dead_letters(delta: Delta, rows: DataFrame, resource: str, batch: BatchId) -> None:
    """Append rows with columns source, key, value, problem, timestamp and batch to the dead letters, once."""
    from pyspark.sql import functions as F

    letters = rows.select(
        F.lit(resource).alias("resource"),
        "source",
        "key",
        "value",
        F.col("problem.reason").alias("reason"),
        F.col("problem.detail").alias("detail"),
        "timestamp",
        "batch",
        F.current_timestamp().alias("at"),
    )
    delta.append(letters.coalesce(1), DEAD_LETTERS, batch.transaction("dead-letters"))

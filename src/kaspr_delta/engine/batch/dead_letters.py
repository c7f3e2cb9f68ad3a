"""Dead letters: what could not be processed, kept with the reason, while everything else goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kaspr_delta.storage.layout import DEAD_LETTERS
from kaspr_delta.storage.spark.sql_text import literal
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kaspr_delta.engine.batch.checkpoint import BatchId

# What a row of a log tells of its failure, as storage/layout.py has it.
ARROW_PROBLEM = pa.struct([("reason", pa.string()), ("detail", pa.string()), ("value", pa.string())])


def problem(reason: str | Column, detail: Column, value: Column) -> Column:
    """What is wrong with a row, as a column of that type."""
    from pyspark.sql import functions as F

    fields = {"reason": F.lit(reason) if isinstance(reason, str) else reason, "detail": detail, "value": value}
    # Text that is certainly there makes a type that NULL does not fit, and most rows have no problem.
    return F.struct(*(F.nullif(field, F.lit("")).alias(name) for name, field in fields.items()))


@dataclass(frozen=True, slots=True)
class Renewed:
    """Which dead letters the first batch of a checkpoint makes again: those from some sources, or from ``every``."""

    sources: tuple[str, ...] = ()
    every: bool = False


def fold_dead_letters(delta: Tables, rows: DataFrame, resource: str, batch: BatchId) -> None:
    """Append rows with columns source, key, value, problem, timestamp and batch to the dead letters, once."""
    delta.append(rows.sparkSession, _letters(rows, resource), DEAD_LETTERS, batch.transaction("dead-letters"))


def renew_dead_letters(  # noqa: PLR0913, PLR0917  what is folded, and what it replaces
    delta: Tables, rows: DataFrame, resource: str, batch: BatchId, renewed: Renewed, failed: int
) -> None:
    """The same for the first batch of a checkpoint, in the place of the letters that it makes again: in one commit.

    So a row that still fails stands there once, and one that does not fail any more is gone. ``failed`` is the number
    of rows. Repeated after a kill, it puts the same letters in their own place.
    """
    there = delta.query(rows.sparkSession, DEAD_LETTERS, "SELECT DISTINCT resource, source FROM t")
    mine = {row["source"] for row in there if row["resource"] == resource}
    if mine if renewed.every else mine.intersection(renewed.sources):
        sources = ", ".join(map(literal, renewed.sources))
        those = "" if renewed.every else f" AND source IN ({sources})"
        delta.replace(
            rows.sparkSession, _letters(rows, resource), DEAD_LETTERS, f"resource = {literal(resource)}{those}"
        )
    elif failed:
        fold_dead_letters(delta, rows, resource, batch)


def _letters(rows: DataFrame, resource: str) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.select(
        F.lit(resource).alias("resource"),
        "source",
        "key",
        "value",
        F.col("problem.reason").alias("reason"),
        F.col("problem.detail").alias("detail"),
        "timestamp",
        "batch",
        F.current_timestamp().alias("at"),
    ).coalesce(1)

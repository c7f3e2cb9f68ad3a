"""Dead letters: events and rows that could not be processed, kept with the reason. All others are processed."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.storage.layout import DEAD_LETTERS
from kaspr_delta.storage.tables import Tables


def problem_column(reason: str | Column, detail: Column, value: Column) -> Column:
    """A row's problem as a column, of the type of a log's ``problem``."""
    fields = {"reason": F.lit(reason) if isinstance(reason, str) else reason, "detail": detail, "value": value}
    # A text that is never NULL makes a type without NULL, but most rows have no problem.
    return F.struct(*(F.nullif(field, F.lit("")).alias(name) for name, field in fields.items()))


@dataclass(frozen=True, slots=True)
class Renewed:
    """Which dead letters the first batch of a checkpoint makes anew: those of ``sources``, or of ``every`` source."""

    sources: tuple[str, ...] = ()
    every: bool = False


def fold_dead_letters(delta: Tables, rows: DataFrame, resource: str, batch: BatchId) -> None:
    """Append rows with columns source, key, value, problem, timestamp and batch to the dead letters, once."""
    delta.append(rows.sparkSession, _letters(rows, resource), DEAD_LETTERS, batch.transaction("dead-letters"))


def renew_dead_letters(  # noqa: PLR0913, PLR0917  the rows to fold, and the letters they replace
    delta: Tables, rows: DataFrame, resource: str, batch: BatchId, renewed: Renewed, failed: int
) -> None:
    """As ``fold_dead_letters``, for the first batch of a checkpoint: replace the ``renewed`` letters in one commit.

    So a row that still fails has one letter, and a row that no longer fails has none. ``failed`` is the number of rows.
    A repetition after a kill replaces the letters by the same ones.
    """
    there = delta.query(rows.sparkSession, DEAD_LETTERS, "SELECT DISTINCT resource, source FROM t")
    mine = {row["source"] for row in there if row["resource"] == resource}
    if mine if renewed.every else mine.intersection(renewed.sources):
        those = "resource = {resource}" if renewed.every else "resource = {resource} AND source IN {sources}"
        letters, spark = _letters(rows, resource), rows.sparkSession
        delta.replace(spark, letters, DEAD_LETTERS, those, resource=resource, sources=renewed.sources)
    elif failed:
        fold_dead_letters(delta, rows, resource, batch)


def _letters(rows: DataFrame, resource: str) -> DataFrame:
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

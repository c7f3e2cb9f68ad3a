"""Dead letters: events and rows that could not be processed, kept with the reason. All others are processed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import DEAD_LETTERS, SYSTEM
from kaspr_delta.storage.tables import Frame, Tables

_LETTER = arrow_schema(SYSTEM[DEAD_LETTERS].columns)


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


def fold_dead_letters(delta: Tables, rows: Rows, resource: str, batch: BatchId) -> None:
    """Append rows with columns source, key, value, problem, timestamp and batch to the dead letters, once."""
    delta.append(rows.spark, _letters(rows, resource), DEAD_LETTERS, batch.transaction("dead-letters"))


def renew_dead_letters(  # noqa: PLR0913, PLR0917  the rows to fold, and the letters they replace
    delta: Tables, rows: Rows, resource: str, batch: BatchId, renewed: Renewed, failed: int
) -> None:
    """As ``fold_dead_letters``, for the first batch of a checkpoint: replace the ``renewed`` letters in one commit.

    So a row that still fails has one letter, and a row that no longer fails has none. ``failed`` is the number of rows.
    A repetition after a kill replaces the letters by the same ones.
    """
    there = delta.query(rows.spark, DEAD_LETTERS, "SELECT DISTINCT resource, source FROM t")
    mine = {row["source"] for row in there if row["resource"] == resource}
    if mine if renewed.every else mine.intersection(renewed.sources):
        those = "resource = {resource}" if renewed.every else "resource = {resource} AND source IN {sources}"
        letters, spark = _letters(rows, resource), rows.spark
        delta.replace(spark, letters, DEAD_LETTERS, those, resource=resource, sources=renewed.sources)
    elif failed:
        fold_dead_letters(delta, rows, resource, batch)


def _letters(rows: Rows, resource: str) -> Frame:
    """The rows as the table stores them. Those of Spark are written by one task."""
    letters = rows.map(AsLetters(resource, datetime.now(timezone.utc)), SYSTEM[DEAD_LETTERS].columns)
    return letters.frame if isinstance(letters, LocalRows) else letters.df.coalesce(1)


@dataclass(frozen=True, slots=True)
class AsLetters:
    """Makes the dead letters of a resource of rows with columns source, key, value, problem, timestamp and batch.

    Keys and values may be bytes; those that are not UTF-8 show as replacement characters. A column ``value`` may lack:
    then the problem has it.
    """

    resource: str
    at: datetime

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            given = {name: batch.column(name) for name in batch.schema.names}
            problem = {name: pc.struct_field(given["problem"], name) for name in ("reason", "detail", "value")}
            columns = {
                **given,
                "key": _readable(given["key"]),
                "value": _readable(given.get("value", problem["value"])),
                "reason": problem["reason"],
                "detail": problem["detail"],
                "resource": pa.repeat(self.resource, batch.num_rows),
                "at": pa.repeat(pa.scalar(self.at, pa.timestamp("us", "UTC")), batch.num_rows),
            }
            yield pa.RecordBatch.from_arrays([columns[of.name].cast(of.type) for of in _LETTER], schema=_LETTER)


def _readable(texts: pa.Array) -> pa.Array:
    """Bytes as text."""
    if not pa.types.is_binary(texts.type):
        return texts
    return pa.array([None if one is None else one.decode("utf-8", "replace") for one in texts.to_pylist()], pa.string())

"""A KasprTable as people read and write it: its rows are on the driver, as text. No Spark where delta-rs can do it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa

from kaspr_delta.engine.rows.row_texts import Row, Written, row_texts, rows_of, rows_that_count, upsert_of
from kaspr_delta.errors import UsageError
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.serde.typed_text import text_of
from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.dialect import DATAFUSION
from kaspr_delta.storage.layout import WRITTEN_AT, Layout
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class DriverTable:
    """One table of the application. ``layout`` is that with which its first write creates it; None: it is there."""

    spark: SparkSession
    delta: Tables
    plan: TablePlan
    layout: Layout | None = None

    @property
    def text(self) -> TableText:
        """The text form of this table's keys and values."""
        return text_of(self.plan)

    def rows(self, keys: Collection[str] | None = None) -> list[Row]:
        """The rows, or those of some keys, one for each row key, ordered by key text and window.

        Delta has no unique keys: see ``KeyedTable.live_rows``. A table that does not exist yet has no rows.
        """
        table, texts = self.plan.delta_name, row_texts(self.plan)
        if not self.delta.exists(self.spark, table) or (keys is not None and not keys):
            return []
        scan = self.delta.scan(self.spark, table)
        if keys is not None:
            dialect = _Placeholders()
            scan = scan.where(texts.condition(keys, dialect.dialect), **dialect.values)
        has = {column.name for column in self.delta.columns(self.spark, table)}
        found = scan.rows([name for name in texts.columns if name in has])
        rows = (row for batch in found.to_batches() for row in rows_of(texts.texts(batch)))
        best = rows_that_count(rows, texts.rank)
        return [best[row_key] for row_key in sorted(best) if keys is None or row_key[0] in keys]

    def key_kinds(self) -> dict[str, int]:
        """How many rows have a key of each kind, text and number, in a table of JSON keys."""
        firsts = (row.key[:1] for row in self.rows())
        return Counter("text" if one == '"' else "number" for one in firsts if one in {*'"-0123456789'})

    def put(self, rows: Iterable[Written]) -> None:
        """Write rows in one commit, each key once."""
        if given := list(rows):
            self._merge(row_texts(self.plan).stored(given))

    def put_columns(self, rows: pa.Table) -> None:
        """Write rows of a typed table, given as columns, each key once. Columns that are not given become null.

        Raises UsageError for a table without columns.
        """
        if self.plan.typed is None:
            raise UsageError(f"table {self.plan.name!r} has no columns")
        time = pa.repeat(pa.scalar(write_time(), pa.timestamp("us", "UTC")), rows.num_rows)
        keep = pa.repeat(pa.scalar(value=True), rows.num_rows)
        self._merge(rows.append_column(WRITTEN_AT, time).append_column("keep", keep))

    def _merge(self, rows: pa.Table) -> None:
        if self.layout is not None:
            self.delta.ensure(self.spark, self.plan.delta_name, self.layout)
        self.delta.merge(self.spark, rows, self.plan.delta_name, upsert_of(self.plan))


def write_time() -> datetime:
    """The present time, for rows that no event writes: its microseconds tell it from the time of an event."""
    now = datetime.now(timezone.utc)
    return now.replace(microsecond=now.microsecond // 1_000 * 1_000 + 1)


class _Placeholders:
    """A dialect that puts placeholders for texts, with the values for them: each backend writes these in its own."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.dialect = replace(DATAFUSION, text=self._named, named=_escaped)

    def _named(self, text: str) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = text
        return f"{{{name}}}"


def _escaped(name: str) -> str:
    return quoted(name).replace("{", "{{").replace("}", "}}")

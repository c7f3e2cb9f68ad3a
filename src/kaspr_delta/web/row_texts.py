"""The SQL by which a copy reads its table, and the rows as text: of keys and values, or of typed columns."""

from __future__ import annotations

import base64
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.storage.layout import WRITTEN_AT
from kaspr_delta.storage.native.sql_text import literal
from kaspr_delta.web.sorted_run import Row, rank
from kaspr_delta.web.typed_rows import TypedRows


class RowTexts(Protocol):
    """The rows of a table as text."""

    def select(self, condition: str) -> str:
        """A SELECT of the rows of the table ``t`` for which a condition holds."""

    def condition(self, keys: Collection[str]) -> str:
        """A condition that holds at least for the rows of some keys."""

    def texts(self, batch: pa.RecordBatch) -> pa.Table:
        """A batch of that SELECT, or of the change feed, with the columns of Row. No value: the row does not count."""

    def rank(self, row: Row) -> Any:
        """The sort key of rows with one row key: the greatest counts."""


@dataclass(frozen=True, slots=True)
class KeysAndValues:
    """Rows of a table with keys and values. JSON's null is no value; a row without a key has none."""

    plan: TablePlan

    def select(self, condition: str) -> str:
        windows = ', "window_start"' if self.plan.window else ""
        return f'SELECT "key", "value", "timestamp"{windows} FROM t WHERE {condition} AND "key" IS NOT NULL'  # noqa: S608

    def condition(self, keys: Collection[str]) -> str:
        return f'"key" IN ({", ".join(map(self._literal, keys))})'

    def texts(self, batch: pa.RecordBatch) -> pa.Table:
        keys, values = (self._text(batch, name) for name in ("key", "value"))
        nothing = pc.is_null(keys)
        if self.plan.serializers.value == "json":
            nothing = pc.or_(nothing, pc.fill_null(pc.equal(values, "null"), fill_value=False))
        starts = pa.array([0] * batch.num_rows, pa.int64())
        if self.plan.window:
            starts = pc.fill_null(pc.divide(_microseconds(batch.column("window_start")), 1_000), 0)
        columns = (
            pc.fill_null(keys, ""),
            starts,
            _microseconds(batch.column("timestamp")),
            pc.if_else(nothing, pa.nulls(len(values), pa.string()), values),
        )
        return pa.table(dict(zip(Row._fields, columns, strict=True)))

    def rank(self, row: Row) -> Any:
        return rank(row)

    def _text(self, batch: pa.RecordBatch, column: str) -> pa.Array:
        values = batch.column(column)
        if getattr(self.plan.serializers, column) != "raw":
            return values.cast(pa.string())
        encoded = (None if value is None else base64.b64encode(value).decode() for value in values.to_pylist())
        return pa.array(encoded, pa.string())

    def _literal(self, key: str) -> str:
        if self.plan.serializers.key == "raw":
            return f"X'{base64.b64decode(key).hex()}'"
        return literal(key)


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows of a typed table. Columns that the table does not have yet are null; a row without a key has no value."""

    typed: TypedRows

    def select(self, condition: str) -> str:
        return f"SELECT * FROM t WHERE {condition}"  # noqa: S608

    def condition(self, keys: Collection[str]) -> str:
        return self.typed.condition(keys, literal)

    def texts(self, batch: pa.RecordBatch) -> pa.Table:
        nothing = pa.nulls(batch.num_rows)
        names = [column.name for column in self.typed.plan.columns]
        has = {name: batch.column(name) if name in batch.schema.names else nothing for name in names}
        columns = (column.to_pylist() for column in has.values())
        found = [self.typed.key_and_value(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
        written = batch.column(WRITTEN_AT) if WRITTEN_AT in batch.schema.names else nothing
        texts = (
            pa.array([key for key, _ in found], pa.string()),
            pa.array([0] * batch.num_rows, pa.int64()),
            _microseconds(written),
            pa.array([value for _, value in found], pa.string()),
        )
        return pa.table(dict(zip(Row._fields, texts, strict=True)))

    def rank(self, row: Row) -> Any:
        return self.typed.rank(row)


def row_texts(plan: TablePlan) -> RowTexts:
    """The RowTexts for the kind of a table."""
    return Columns(TypedRows.of(plan)) if plan.typed else KeysAndValues(plan)


def _microseconds(moments: pa.Array) -> pa.Array:
    return moments.cast(pa.timestamp("us", "UTC")).cast(pa.int64())

"""The rows of a table as text, of keys and values or of typed columns, and back: their SQL, and which rows count."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.serde.typed_text import TypedText, ordered
from kaspr_delta.serde.typed_values import column_text, from_columns, to_columns
from kaspr_delta.spec.column_types import key_kind
from kaspr_delta.spec.ddl import Column, Type
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.dialect import DATAFUSION, Dialect
from kaspr_delta.storage.layout import WRITTEN_AT, time_column
from kaspr_delta.storage.tables import Upsert

_TIME = pa.timestamp("us", "UTC")

Written: TypeAlias = tuple[str, "str | None", "datetime | None"]
"""A row to write: the text of its key, that of its value (None deletes the row), and its time."""


class Row(NamedTuple):
    """A row. ``start`` is 0 without windows, ``at`` its time in microseconds; without a value it does not count."""

    key: str
    start: int
    at: int | None
    value: str | None


@dataclass(frozen=True, slots=True)
class KeysAndValues:
    """Rows of a table with keys and values. JSON's null is no value; a row without a key has none."""

    plan: TablePlan

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that ``texts`` reads."""
        return ("key", "value", "timestamp", *(("window_start",) if self.plan.window else ()))

    def select(self, condition: str) -> str:
        """A SELECT, for DataFusion, of the rows of the table ``t`` for which a condition holds."""
        windows = ', "window_start"' if self.plan.window else ""
        return f'SELECT "key", "value", "timestamp"{windows} FROM t WHERE {condition} AND "key" IS NOT NULL'  # noqa: S608

    def condition(self, keys: Collection[str], dialect: Dialect = DATAFUSION) -> str:
        """A condition that holds at least for the rows of some keys."""
        is_raw = self.plan.serializers.key == "raw"
        texts = (dialect.binary(base64.b64decode(key)) if is_raw else dialect.text(key) for key in keys)
        return f"`key` IN ({', '.join(texts)})"

    def texts(self, batch: pa.RecordBatch) -> pa.Table:
        """A batch of that SELECT, or of the change feed, with the columns of Row."""
        import pyarrow.compute as pc  # to write rows takes less of Arrow, and starts quicker

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

    def stored(self, rows: Iterable[Written]) -> pa.Table:
        """Written rows as the table stores them, and ``keep``: false for those that are deleted."""
        keys, values, times = zip(*rows, strict=True)
        return pa.table(
            {
                "key": self._column("key", keys),
                "value": self._column("value", values),
                "timestamp": pa.array(times, _TIME),
                "keep": pa.array([value is not None for value in values]),
            }
        )

    def rank(self, row: Row) -> Any:
        """The sort key of rows with one row key: the greatest counts."""
        return row.at is not None, row.at or 0, row.value

    def _text(self, batch: pa.RecordBatch, column: str) -> pa.Array:
        values = batch.column(column)
        if getattr(self.plan.serializers, column) != "raw":
            return values.cast(pa.string())
        encoded = (None if value is None else base64.b64encode(value).decode() for value in values.to_pylist())
        return pa.array(encoded, pa.string())

    def _column(self, column: str, texts: Iterable[str | None]) -> pa.Array:
        if getattr(self.plan.serializers, column) != "raw":
            return pa.array(texts, pa.string())
        return pa.array([None if text is None else base64.b64decode(text) for text in texts], pa.binary())


@dataclass(frozen=True, slots=True)
class TypedRows:
    """The same for a typed table. Columns that it does not have yet are null; a row without a key has no value."""

    plan: TypedPlan
    text: TypedText

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(column.name for column in self.plan.columns), WRITTEN_AT)

    def select(self, condition: str) -> str:
        return f"SELECT * FROM t WHERE {condition}"  # noqa: S608

    def condition(self, keys: Collection[str], dialect: Dialect = DATAFUSION) -> str:
        # Numbers stay as they are written: floating point does not keep all digits of a DECIMAL.
        texts = [json.loads(key, parse_float=str, parse_int=str) for key in keys]
        parsed = texts if len(self.plan.key) > 1 else [[text] for text in texts]
        conditions = [
            _one_of(dialect, name, of, [key[index] for key in parsed])
            for index, (name, of) in enumerate(zip(self.plan.key, self.plan.key_types, strict=True))
            if of.name in dialect.found_by_text
        ]
        return " AND ".join(conditions) or "true"

    def texts(self, batch: pa.RecordBatch) -> pa.Table:
        nothing = pa.nulls(batch.num_rows)
        names = [column.name for column in self.plan.columns]
        has = {name: batch.column(name) if name in batch.schema.names else nothing for name in names}
        columns = (_objects(name, column) for name, column in has.items())
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        found = [self.texts_of(from_columns(self.plan.row, row)) for row in rows]
        texts = (
            pa.array([key for key, _ in found], pa.string()),
            pa.array([0] * batch.num_rows, pa.int64()),
            _microseconds(batch.column(WRITTEN_AT) if WRITTEN_AT in batch.schema.names else nothing),
            pa.array([value for _, value in found], pa.string()),
        )
        return pa.table(dict(zip(Row._fields, texts, strict=True)))

    def texts_of(self, row: Mapping[str, Any]) -> tuple[str, str | None]:
        """Key and value as text of a row as functions see it."""
        key = [row[name] for name in self.plan.key]
        if any(part is None for part in key):
            return "", None
        return self.text.key(key if len(key) > 1 else key[0]), self.text.value(row)

    def stored(self, rows: Iterable[Written]) -> pa.Table:
        given = list(rows)
        stored = arrow_rows_of(self.plan.columns, [self._row(key, value) for key, value, _ in given])
        stored = stored.append_column(WRITTEN_AT, pa.array([at for _, _, at in given], _TIME))
        return stored.append_column("keep", pa.array([value is not None for _, value, _ in given], pa.bool_()))

    def _row(self, key: str, value: str | None) -> dict[str, Any]:
        """The columns of a row. Those of the key come from the key, not from the value."""
        parts = self.text.event_key(key)
        keys = dict(zip(self.plan.key, parts if len(self.plan.key) > 1 else [parts], strict=True))
        return {**({} if value is None else self.text.value_object(value)), **keys}

    def rank(self, row: Row) -> Any:
        """As joins compare rows: the later row, then the greater one, column by column."""
        return row.at is not None, row.at or 0, ordered(self.plan.row, self.text.value_object(row.value or ""))


@dataclass(frozen=True, slots=True)
class ResultRows:
    """The same for the result of a join, which nobody else writes.

    Values are ``{"left": …, "right": …}`` with base64 for bytes, or the selected columns.
    """

    plan: TablePlan
    sides: tuple[TablePlan, TablePlan]

    @property
    def types(self) -> dict[str, Type]:
        """The columns of a value with their types."""
        if self.plan.typed:
            return {column.name: column.type for column in self.plan.typed.columns}
        return {name: side.row_type or Type("STRING") for name, side in zip(("left", "right"), self.sides, strict=True)}

    @property
    def columns(self) -> tuple[str, ...]:
        return ("key", *self.types, time_column(self.plan))

    def select(self, condition: str) -> str:
        return f"SELECT * FROM t WHERE {condition}"  # noqa: S608

    def condition(self, keys: Collection[str], dialect: Dialect = DATAFUSION) -> str:
        return f"`key` IN {dialect.texts(keys)}"

    def texts(self, batch: pa.RecordBatch) -> pa.Table:
        nothing = pa.nulls(batch.num_rows)
        has = {name: batch.column(name) if name in batch.schema.names else nothing for name in self.columns}
        columns = {name: has[name].to_pylist() for name in self.types}
        texts = (
            pa.array([key or "" for key in has["key"].to_pylist()], pa.string()),
            pa.array([0] * batch.num_rows, pa.int64()),
            _microseconds(has[time_column(self.plan)]),
            pa.array(self.values(columns), pa.string()),
        )
        return pa.table(dict(zip(Row._fields, texts, strict=True)))

    def values(self, columns: Mapping[str, Sequence[Any]]) -> list[str | None]:
        """The values of rows, given by their columns as Arrow has them."""
        if self.plan.typed:
            rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
            return column_text(self.plan.typed.row, rows)
        left, right = map(self._side, self.sides, (columns["left"], columns["right"]))
        return [f'{{"left":{one},"right":{other}}}' for one, other in zip(left, right, strict=True)]

    @staticmethod
    def _side(side: TablePlan, values: Sequence[Any]) -> list[str]:
        """The values of one side as JSON. Older versions broke base64 into lines."""
        texts = column_text(side.row_type, values)
        if side.serializers.value == "raw":
            texts = [None if text is None else json.dumps("".join(text.split())) for text in texts]
        return ["null" if text is None else text for text in texts]

    def stored(self, rows: Iterable[Written]) -> pa.Table:
        """Raises UsageError."""
        raise UsageError(str(self.plan.refusal))

    def rank(self, row: Row) -> Any:
        return row.at is not None, row.at or 0, row.value


def arrow_rows_of(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows as functions see them as an Arrow table with these columns."""
    schema = arrow_schema(", ".join(map(str, columns)))
    return pa.Table.from_pylist(
        [{one.name: to_columns(one.type, row.get(one.name)) for one in columns} for row in rows], schema
    )


def row_texts(plan: TablePlan) -> KeysAndValues | TypedRows | ResultRows:
    """The text forms of the rows of a table."""
    if plan.joined is not None:
        return ResultRows(plan, plan.joined)
    return TypedRows(plan.typed, TypedText(plan.serializers, plan.typed)) if plan.typed else KeysAndValues(plan)


def upsert_of(plan: TablePlan, *, timely: bool = False) -> Upsert:
    """How rows are merged into a table, each key once; if ``timely``, also those of which only the time differs."""
    typed, windows = plan.typed, ("window_end", "stream") if plan.window else ()
    on = plan.row_key_columns if typed is None else typed.key
    values = ("value",) if typed is None else tuple(column.name for column in typed.rest)
    time = (time_column(plan),)
    compare, also = ((*values, *time), ()) if timely else (values, time)
    return Upsert(on=on, compare=compare, also=(*also, *windows), keep="keep")


def rows_of(batch: pa.Table) -> Iterator[Row]:
    """The rows of a table with the columns of Row."""
    return map(Row._make, zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _objects(name: str, column: pa.Array) -> list[Any]:
    """The values of a column. Raises SerializationError for a date or a time that Python does not have."""
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:
        raise SerializationError(f"column {name} has a date or a time that is not in the years 1 to 9999") from None
    return values


def rows_that_count(rows: Iterable[Row], rank: Callable[[Row], Any]) -> dict[tuple[str, int], Row]:
    """For each row key the row that counts: the greatest."""
    best: dict[tuple[str, int], Row] = {}
    for row in rows:
        if row.value is not None and (row[:2] not in best or rank(best[row[:2]]) < rank(row)):
            best[row[:2]] = row
    return best


def best_of(rows: Iterable[Row], rank: Callable[[Row], Any]) -> dict[tuple[str, int], str]:
    """For each row key the value of the row that counts."""
    best = rows_that_count(rows, rank)
    return {row_key: row.value for row_key, row in best.items() if row.value is not None}


def _microseconds(moments: pa.Array) -> pa.Array:
    return moments.cast(pa.timestamp("us", "UTC")).cast(pa.int64())


def _one_of(dialect: Dialect, name: str, of: Type, values: Sequence[Any]) -> str:
    texts = sorted({value if isinstance(value, str) else json.dumps(value) for value in values})
    # A text that is no value of the type becomes NULL, which no row equals.
    form = "{}" if key_kind(of) == "text" else f"TRY_CAST({{}} AS {of})"
    return f"{dialect.named(name)} IN ({', '.join(form.format(dialect.text(text)) for text in texts)})"

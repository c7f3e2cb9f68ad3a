"""Rows of typed tables without Spark: as text, by their keys in SQL, and their order if one key has several rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.serde.row_order import ordered
from kaspr_delta.serde.typed_text import TypedText
from kaspr_delta.serde.typed_values import from_columns
from kaspr_delta.spec.column_types import key_kind
from kaspr_delta.spec.ddl import Type, quoted
from kaspr_delta.web.sorted_run import Row, rank

# Key columns of these types are found by their text. If a key has no such column, all rows are read.
FOUND_BY_TEXT = frozenset({"STRING", "CHAR", "VARCHAR", "TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN", "DATE"})


@dataclass(frozen=True, slots=True)
class TypedRows:
    """The rows of a table whose columns are known."""

    plan: TypedPlan
    text: TypedText

    @classmethod
    def of(cls, table: TablePlan) -> TypedRows:
        """The rows of a typed table. Raises LookupError for other tables."""
        if table.typed is None:
            msg = f"table {table.name!r} has no columns"
            raise LookupError(msg)
        return cls(table.typed, TypedText(table.serializers, table.typed))

    def key_and_value(self, columns: Mapping[str, Any]) -> tuple[str, str | None]:
        """Key and value of an Arrow row as text; no value if a column of the key is null: the row does not count."""
        return self.texts_of(from_columns(self.plan.row, columns))

    def texts_of(self, row: Mapping[str, Any]) -> tuple[str, str | None]:
        """Key and value as text of a row as functions see it."""
        key = [row[name] for name in self.plan.key]
        if any(part is None for part in key):
            return "", None
        return self.text.key(key if len(key) > 1 else key[0]), self.text.value(row)

    def condition(
        self, keys: Collection[str], literal: Callable[[str], str], found: Collection[str] = FOUND_BY_TEXT
    ) -> str:
        """An SQL condition that holds at least for the rows of these keys, on key columns of the types ``found``."""
        several = len(self.plan.key) > 1
        # Numbers stay as they are written: floating point does not keep all digits of a DECIMAL.
        texts = [json.loads(key, parse_float=str, parse_int=str) for key in keys]
        parsed = texts if several else [[text] for text in texts]
        conditions = [
            _one_of(quoted(name), of, [key[index] for key in parsed], literal)
            for index, (name, of) in enumerate(zip(self.plan.key, self.plan.key_types, strict=True))
            if of.name in found
        ]
        return " AND ".join(conditions) or "true"

    def rank(self, row: Row) -> Any:
        """The sort key by which joins compare rows: the later row, then the greater one, column by column."""
        if row.value is None:
            return rank(row)
        return row.at is not None, row.at or 0, True, ordered(self.plan.row, self.text.value_object(row.value))


def _one_of(column: str, of: Type, values: Sequence[Any], literal: Callable[[str], str]) -> str:
    texts = sorted({value if isinstance(value, str) else json.dumps(value) for value in values})
    if key_kind(of) == "text":
        return f"{column} IN ({', '.join(map(literal, texts))})"
    # A text that is no value of the type becomes NULL, which no row equals.
    return f"{column} IN ({', '.join(f'TRY_CAST({literal(text)} AS {of})' for text in texts)})"

"""The columns of a join's result table, if it does not show the pair of rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from kaspr_delta.spec.base import Problem, Spec, Text, at_least_one, one_of, optional
from kaspr_delta.spec.column_types import TableSchema, name_problems
from kaspr_delta.spec.ddl import Column, columns_of

_NAMES = re.compile(r"(left|right)(\.(`([^`]|``)+`|[^.`][^.]*))+", re.DOTALL)
# Columns that a result has in addition to the author's.
_OWN = {"key", "_pair"}


class Select(Spec):
    """The columns of a result: picked from both sides, or made by a function of both."""

    columns: Annotated[dict[Text, Text], Field(min_length=1)] | None = optional(
        "by name the field that each shows, as in `price: right.price`"
    )
    python: Text | None = optional("instead: a Python function (left, right) that returns a dictionary of the columns")
    entrypoint: Text | None = optional("the function to call, where the text holds several; else the first")
    types: TableSchema | None = optional(
        "the columns with their types; needed where typed tables do not tell them", alias="schema"
    )

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        ways = ("columns", "python")
        yield from one_of(written, ways, "a result is selected in one way")
        hint = "for example `columns: {order: left.order_id, price: right.price}`"
        yield from at_least_one(written, ways, "'select' needs 'columns' or 'python'", hint)
        if written.get("python") is not None and written.get("schema") is None:
            hint = "for example `schema: order_id STRING, total DOUBLE`"
            yield Problem("'python' does not tell types: 'schema' is missing", hint, ("python",), absent=(("schema",),))

    @property
    def declared(self) -> tuple[Column, ...]:
        """The columns of the schema; none without one."""
        return columns_of(self.types) if self.types else ()

    def problems(self) -> Iterator[Problem]:
        for name, path in (self.columns or {}).items():
            if not _NAMES.fullmatch(path):
                hint = "write `left.COLUMN` or `right.COLUMN`, also with fields of columns"
                yield Problem(f"'{path}' is of no side of the join", hint, ("columns", name))
        names = [column.name for column in self.declared]
        for message, hint in () if names else name_problems(self.columns or (), written=True):
            yield Problem(message, hint, ("columns",))
        if self.columns and names and set(names) != set(self.columns):
            yield Problem("'schema' and 'columns' do not have the same columns", "name each in both", ("schema",))
        for name in (*(self.columns or ()), *names):
            if name.lower() in _OWN:
                field = "columns" if self.columns else "schema"
                yield Problem(f"a result has a column '{name}' of its own", "give this one another name", (field,))
                break

"""The columns of a result table: picked from both rows, or computed from them by a function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.typed_columns import row_of
from kaspr_delta.engine.streams.selector import ARROW_PROBLEM, Problem, problem
from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.call import call_with
from kaspr_delta.functions.column_paths import Path
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED, account_of_failure
from kaspr_delta.functions.snippet import Snippet, in_empty_scope
from kaspr_delta.functions.time_limit import at_most
from kaspr_delta.plan.definition.joins import SelectPlan
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.serde.json_text import value_text
from kaspr_delta.serde.typed_text import text_of
from kaspr_delta.serde.typed_values import from_columns, written
from kaspr_delta.spec.ddl import Column as DdlColumn
from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.layout import SELECTED


@dataclass(frozen=True, slots=True)
class SelectRow:
    """Adds ``selected`` to rows of a log; a function that fails, or returns what does not fit, is their problem.

    The pair itself goes on to the channel; the result has no such row.
    """

    function: Snippet
    row: Type
    sides: tuple[TablePlan, TablePlan]
    timeout: float

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            names = ("kind", "left", "right", "problem")
            columns = [batch.column(name).to_pylist() for name in names]
            made = [self._selected(*row) for row in zip(*columns, strict=True)]
            problems = pa.array([trouble for _, trouble in made], ARROW_PROBLEM)
            rows = batch
            for name, column in {"problem": problems, "failed": problems.is_valid()}.items():
                rows = rows.set_column(rows.schema.get_field_index(name), name, column)
            yield rows.append_column(SELECTED, pa.array([text for text, _ in made], pa.string()))

    def _selected(self, kind: str, left: Any, right: Any, before: Problem | None) -> tuple[str | None, Problem | None]:
        if kind != "value":
            return None, before
        try:
            with at_most(self.timeout):
                row = call_with(in_empty_scope(self.function), *map(_value, self.sides, (left, right)))
            return value_text(written(self.row, row, "the row")), before
        except SerializationError as error:
            return None, problem("selected row cannot be used", str(error), None)
        except AUTHORS_CODE_FAILED as error:
            return None, problem("select failed", account_of_failure(error, frames=3), None)


def selected_columns(select: SelectPlan, left: TablePlan, right: TablePlan) -> dict[str, Column]:
    """The columns of the result of rows of a log, by their names."""
    columns = select.columns(left.row_type, right.row_type)
    if select.function is not None:
        row = row_of(F.col(SELECTED), Type("STRUCT", fields=columns))
        return {column.name: row[column.name] for column in columns}
    paths, sides = dict(select.paths), {"left": left, "right": right}
    return {one.name: _picked(sides[paths[one.name][0]], paths[one.name], one) for one in columns}


def _picked(side: TablePlan, path: Path, column: DdlColumn) -> Column:
    """A column of one side of a pair, by its path from ``left`` or ``right`` on: a field of a STRUCT, or in JSON."""
    name, *fields = path
    row = F.col(name)
    if side.row_type is None:
        kind = column.type
        for field in reversed(fields):
            kind = Type("STRUCT", fields=(DdlColumn(field, kind),))
        row = row_of(row, kind)
    return reduce(lambda value, field: value[field], fields, row).cast(str(column.type))


def _value(side: TablePlan, value: Any) -> Any:
    if value is None:
        return None
    return text_of(side).value_object(value) if side.row_type is None else from_columns(side.row_type, value)

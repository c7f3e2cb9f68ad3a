"""The same cases over tables with columns instead of JSON: two columns are the key, the others what the row says.

A row in JSON may lack a field or have null there; columns cannot tell that apart, so what was recorded stands field by
field in a MAP, each as JSON text. Numbers of cases have one width on the left and another on the right: keys are
compared by value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from tests.oracle.case import Case, Event, text
from tests.oracle.family import Family
from tests.oracle.outputs import JoinOutput
from tests.oracle.rows import Rows, moment_of

_PREFIX = "typed-"

Row = tuple[int, str | None, str | None, Mapping[str, str] | None, datetime, bool]


def _row(number: int, case: Case, event: Event) -> Row:
    fields = None if event.value is None else {name: text(field) for name, field in event.value.items()}
    foreign_key = None if event.value is None else event.value.get(case.params.get("fk_field"))
    return number, event.key, foreign_key, fields, moment_of(event), fields is not None


def recorded(row: Any) -> Any:
    """A side of a pair as it was recorded."""
    return None if row is None else {name: json.loads(field) for name, field in row["fields"].items()}


ROWS = Rows(
    columns="number INT, name STRING, fk STRING, fields MAP<STRING, STRING>, _timestamp TIMESTAMP, keep BOOLEAN",
    key=("number", "name"),
    compare=("fk", "fields", "_timestamp"),
    row=_row,
)

FAMILIES = tuple(
    Family(
        shape=f"{_PREFIX}{shape}",
        types=types,
        inputs={"left": "table", "right": "table"},
        output=JoinOutput(has_result=True, side=recorded),
        rows=ROWS,
    )
    for shape, types in (("fk-table-table", ("inner", "left")), ("table-table", ("inner", "left", "outer")))
)


def on_typed_tables(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Those of the cases that are about two tables, over tables with columns."""
    shapes = {family.shape for family in FAMILIES}
    twins = (replace(case, shape=f"{_PREFIX}{case.shape}") for case in cases)
    return tuple(twin for twin in twins if twin.shape in shapes)

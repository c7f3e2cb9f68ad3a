"""The same cases over typed tables: two columns are the key, the others the foreign key, the fields and the time.

In JSON a missing field differs from null, in columns it does not: a MAP holds the recorded fields, each as JSON text.
The number of a case is an INT on the left and a BIGINT on the right, to show that keys are compared by value.
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
from tests.oracle.rows import RowForm, moment_of

_PREFIX = "typed-"

Row = tuple[int, str | None, str | None, Mapping[str, str] | None, datetime, bool]


def _row(number: int, case: Case, event: Event) -> Row:
    fields = None if event.value is None else {name: text(field) for name, field in event.value.items()}
    foreign_key = None if event.value is None else event.value.get(case.params.get("fk_field"))
    return number, event.key, foreign_key, fields, moment_of(event), fields is not None


def recorded(row: Any) -> Any:
    """A side of a pair in the recorded form."""
    return None if row is None else {name: json.loads(field) for name, field in row["fields"].items()}


ROWS = RowForm(
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
    """The joins of two tables among the cases, as cases of typed tables."""
    shapes = {family.shape for family in FAMILIES}
    twins = (replace(case, shape=f"{_PREFIX}{case.shape}") for case in cases)
    return tuple(twin for twin in twins if twin.shape in shapes)

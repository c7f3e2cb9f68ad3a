"""Events as rows of a table, in the form of a foreign writer: with the event's time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from kaspr_delta.serde.json_text import canonical_key, value_text
from tests.oracle.case import Case, Event, text
from tests.oracle.wrapping import wrapped, wrapped_key

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

TableRow = tuple[Any, ...]
"""A row to write, column by column. The last column is false for a deletion."""


@dataclass(frozen=True, slots=True)
class RowForm:
    """The form of a table's rows: ``row`` makes a row from the number of a case, the case and one of its events.

    A row is written again if one of the columns ``compare`` differs; the time is one of them.
    """

    columns: str
    key: tuple[str, ...]
    compare: tuple[str, ...]
    row: Callable[[int, Case, Event], TableRow]


def _moment_of(event: Event) -> datetime:
    return _EPOCH + timedelta(milliseconds=event.ts)


def _json(number: int, case: Case, event: Event) -> TableRow:
    key = None if event.key is None else canonical_key(wrapped_key(number, event.key))
    value = wrapped(number, case, event.value)
    return key, None if value is None else value_text(value), _moment_of(event), value is not None


def _typed(number: int, case: Case, event: Event) -> TableRow:
    fields = None if event.value is None else [(name, text(field)) for name, field in event.value.items()]
    foreign_key = None if event.value is None else event.value.get(case.params.get("fk_field"))
    return number, event.key, foreign_key, fields, _moment_of(event), fields is not None


JSON_ROWS = RowForm(
    columns="key STRING, value STRING, timestamp TIMESTAMP, keep BOOLEAN",
    key=("key",),
    compare=("value", "timestamp"),
    row=_json,
)

TYPED_ROWS = RowForm(
    columns="number INT, name STRING, fk STRING, fields MAP<STRING, STRING>, _timestamp TIMESTAMP, keep BOOLEAN",
    key=("number", "name"),
    compare=("fk", "fields", "_timestamp"),
    row=_typed,
)
"""Two columns are the key, the others the foreign key, the fields and the time.

In JSON a missing field differs from null, in columns it does not: a MAP holds the recorded fields, each as JSON text.
The number of a case is an INT on the left and a BIGINT on the right, to show that keys are compared by value.
"""

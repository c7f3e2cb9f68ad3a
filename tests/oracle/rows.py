"""Events as rows of a table, in the form of a foreign writer: with the event's time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from kaspr_delta.serde.json_text import canonical_key, value_text
from tests.oracle.case import Case, Event
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


def moment_of(event: Event) -> datetime:
    """The time of an event."""
    return _EPOCH + timedelta(milliseconds=event.ts)


def _json(number: int, case: Case, event: Event) -> TableRow:
    key = None if event.key is None else canonical_key(wrapped_key(number, event.key))
    value = wrapped(number, case, event.value)
    return key, None if value is None else value_text(value), moment_of(event), value is not None


JSON_ROWS = RowForm(
    columns="key STRING, value STRING, timestamp TIMESTAMP, keep BOOLEAN",
    key=("key",),
    compare=("value", "timestamp"),
    row=_json,
)

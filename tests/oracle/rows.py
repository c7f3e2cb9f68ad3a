"""How the events of a table are written: as somebody else would, with the event's own time."""

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
"""A row to write, column by column; the last one says whether it is kept or deleted."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What rows of tables look like: ``row`` makes one of the event of a case, whose number comes first.

    ``compare`` are the columns in which a row differs that has to be written again; the time is one of them.
    """

    columns: str
    key: tuple[str, ...]
    compare: tuple[str, ...]
    row: Callable[[int, Case, Event], TableRow]


def moment_of(event: Event) -> datetime:
    """When an event was."""
    return _EPOCH + timedelta(milliseconds=event.ts)


def _json(number: int, case: Case, event: Event) -> TableRow:
    key = None if event.key is None else canonical_key(wrapped_key(number, event.key))
    value = wrapped(number, case, event.value)
    return key, None if value is None else value_text(value), moment_of(event), value is not None


JSON_ROWS = Rows(
    columns="key STRING, value STRING, timestamp TIMESTAMP, keep BOOLEAN",
    key=("key",),
    compare=("value", "timestamp"),
    row=_json,
)

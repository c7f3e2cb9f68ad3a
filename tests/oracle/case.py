"""Recorded cases: the input and the output of Kafka Streams.

Output is kept as canonical JSON text: in Python the values ``1``, ``1.0`` and ``True`` would be equal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, TypeAdapter, ValidationError

Side = Literal["left", "right"]


class CasesError(Exception):
    """A file without valid cases. The message is one sentence with the reason."""


def text(value: Any) -> str:
    """The canonical JSON text of a key or value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else text(value)


def _rows(final: Any) -> Any:
    """Rows by key. Rows of windows, whose keys are objects, are recorded as a list of keys and values."""
    if isinstance(final, Mapping):
        return {text(key): text(value) for key, value in final.items()}
    if isinstance(final, list):
        return {text(row["key"]): text(row["value"]) for row in final if _is_row(row)}
    return final


def _is_row(row: Any) -> bool:
    if isinstance(row, Mapping) and {"key", "value"} <= row.keys():
        return True
    message = "a row has a key and a value"
    raise ValueError(message)


Text = Annotated[str, BeforeValidator(text)]
TextOrNone = Annotated[str | None, BeforeValidator(_text_or_none)]
Rows = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Event:
    """An input record. The value None is a deletion."""

    side: Side
    key: Any
    value: Any
    ts: int


@dataclass(frozen=True, slots=True)
class Emission:
    """An output record: a result, or a tombstone (value None)."""

    key: Text
    value: TextOrNone
    ts: int


@dataclass(frozen=True, slots=True)
class Expected:
    """The output of Kafka Streams: emissions by event, and the final rows (None for stream-valued joins)."""

    emitted: tuple[tuple[Emission, ...], ...]
    final: Annotated[Rows | None, BeforeValidator(_rows)] = None


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded case."""

    name: str
    shape: str
    type: str
    params: Mapping[str, Any]
    tags: tuple[str, ...]
    events: tuple[Event, ...]
    expected: Expected


_SUITE = TypeAdapter(tuple[Case, ...])


def load(file: Path) -> tuple[Case, ...]:
    """The cases of a file. Raises CasesError."""
    try:
        cases = _SUITE.validate_json(file.read_bytes())
    except OSError as error:
        message = f"the file cannot be read: {error.strerror}"
        raise CasesError(message) from error
    except ValidationError as error:
        raise CasesError(_sentence(error)) from error
    for case in cases:
        if len(case.events) != len(case.expected.emitted):
            message = f"{case.name}: {len(case.events)} events, but emissions of {len(case.expected.emitted)}"
            raise CasesError(message)
    return cases


def _sentence(error: ValidationError) -> str:
    """The first error, and its place."""
    first = error.errors()[0]
    where = " ".join(str(part + 1) if isinstance(part, int) else part for part in first["loc"])
    return f"case {where}: {first['msg']}" if where else first["msg"]

"""The rows, records and dead letters of an application, as commands print them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from kaspr_delta.api.join import StreamJoinHandle
from kaspr_delta.api.table import json_rows
from kaspr_delta.application import Application
from kaspr_delta.errors import NotFoundError, SerializationError
from kaspr_delta.serde.json_lines import json_line
from kaspr_delta.serde.json_text import parse

Fields = dict[str, Any]
"""A row, record or dead letter as JSON."""

DEAD_LETTERS = "dead letters"
"""The name under which the dead letters of all resources are listed."""


def everything_in(application: Application) -> dict[str, list[Fields]]:
    """All rows and records by resource, and the dead letters. Resources that wait, and tables of others, are left out.

    Raises KasprError.
    """
    return {name: found for name, found in _by_resource(application) if found is not None}


def _by_resource(application: Application) -> Iterator[tuple[str, list[Fields] | None]]:
    plan = application.plan
    for topic in plan.topics:
        yield f"topic/{topic.name}", _records_if_any(application, topic.name)
    for table in plan.tables:
        if not table.is_foreign:
            yield f"table/{table.name}", rows_of(application.table(table.name).rows())
    for join in plan.joins:
        yield f"join/{join.name}", result_of(application, join.name)
    yield DEAD_LETTERS, letters_of(application)


def result_of(application: Application, join: str) -> list[Fields]:
    """The rows of a join's result, or the records of a join with a stream. Raises NotFoundError."""
    handle = application.join(join)
    if isinstance(handle, StreamJoinHandle):
        return [_plain(record) for record in handle.records()]
    return rows_of(handle.rows())


def records_of(application: Application, topic: str) -> list[Fields]:
    """The records of a topic. Raises NotFoundError."""
    return [_plain(record) for record in application.topic(topic).records()]


def _records_if_any(application: Application, topic: str) -> list[Fields] | None:
    try:
        return records_of(application, topic)
    except NotFoundError:  # functions name it, and no record was sent to it yet
        return None


def rows_of(pairs: Iterable[tuple[Any, Any]]) -> list[Fields]:
    """Pairs of key and value as rows; those of a table with windows have the window's start and end."""
    return list(map(_plain, json_rows(pairs)))


def letters_of(application: Application) -> list[Fields]:
    """The dead letters, with the fields that people look at, and their keys as objects."""
    return list(map(_letter, application.dead_letters()))


def _letter(letter: Mapping[str, Any]) -> Fields:
    shown = {name: letter[name] for name in ("resource", "source", "key", "value", "reason", "detail")}
    with suppress(SerializationError):
        shown["key"] = None if shown["key"] is None else parse(shown["key"])
    return _plain(shown)


def _plain(fields: Mapping[str, Any]) -> Fields:
    """Fields as commands print them."""
    plain: Fields = json.loads(json_line(dict(fields)))
    return plain

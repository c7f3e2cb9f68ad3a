"""Put the rows and records of a fixture into an application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from kaspr_delta.application import Application
from kaspr_delta.errors import UsageError
from kaspr_delta.serde.files.read import objects_of
from kaspr_delta.spec.fixture import Changes, Record


def put(application: Application, changes: Changes, folder: Path) -> None:
    """Put rows into tables, and records on topics; their files are relative to ``folder``. Nothing runs.

    Raises KasprError.
    """
    for name, rows in changes.tables.items():
        table = application.table(name)
        for file, some in groupby(rows, attrgetter("file")):
            if file is None:
                table.put([(row.key, row.value) for row in some])
            else:
                table.load(str(folder / file))
    for name, records in changes.topics.items():
        application.topic(name).produce([one for record in records for one in _records(record, folder)])


def _records(record: Record, folder: Path) -> Iterator[Mapping[str, Any]]:
    """The records to produce for one of a fixture: itself, or those of its file. Raises UsageError."""
    if record.file is None:
        yield record.model_dump(exclude={"file"}, exclude_none=True) | {"value": record.value}
        return
    try:
        with (folder / record.file).open("rb") as data:
            yield from objects_of(data, record.file)
    except OSError as error:
        raise UsageError(f"{record.file} cannot be read: {error.strerror}") from error

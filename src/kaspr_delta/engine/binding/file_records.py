"""The rows of incoming files as records, made in Spark's Python workers by the reader that ``table load`` uses too."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.plan.definition.bindings import FilesPlan
from kaspr_delta.serde.files.read import checked_format, file_rows
from kaspr_delta.serde.files.rows import FileRow
from kaspr_delta.serde.files.typed import json_of, typed_row
from kaspr_delta.serde.files.untyped import json_value, whole_or_fraction
from kaspr_delta.serde.json_text import canonical_key, value_text
from kaspr_delta.serde.typed_values import shown
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.storage.arrow_types import arrow_schema, batch_of

FILE_COLUMNS = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
"""The columns of Spark's source of whole files."""
RECORD_COLUMNS = "path STRING, modified TIMESTAMP, row BIGINT, key STRING, value STRING, at STRING, detail STRING"
"""A record of a file: ``row`` is its number there, ``at`` its time as text, ``detail`` the problem of a dead letter."""

_SCHEMA = arrow_schema(RECORD_COLUMNS)
# Rows leave a worker in batches of so many.
_BATCH = 5_000


class _Record(NamedTuple):
    key: str | None
    value: str | None
    at: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class FileRecords:
    """A function over batches of whole files, of FILE_COLUMNS without ``length``, that returns RECORD_COLUMNS."""

    plan: FilesPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            files = (batch.column(name) for name in ("path", "modificationTime", "content"))
            for path, modified, content in zip(*files, strict=True):
                about = path.as_py(), modified.cast(_SCHEMA.field("modified").type).as_py()
                records = enumerate(self.records(about[0], content.as_buffer()))
                while rows := [(*about, number, *record) for number, record in islice(records, _BATCH)]:
                    yield batch_of(rows, _SCHEMA)

    def records(self, path: str, content: pa.Buffer) -> Iterator[_Record]:
        """The records of a file in order. What cannot be read of it is one dead letter at the end."""
        name = path.rpartition("/")[2]
        given = None if self.plan.header or self.plan.format != "csv" else [one.name for one in self._columns]
        try:
            data = io.BytesIO(content)
            known, check = checked_format(self.plan.format), partial(self._check, name)
            for row in file_rows(data, name, known, self.plan.delimiter, given, check):
                yield self._record(row)
        except UsageError as error:
            yield _Record(None, None, None, str(error))

    def _check(self, place: str, names: Iterable[str]) -> None:
        """Raise UsageError if a column is not among the names."""
        if missing := [one.name for one in self._columns if one.name not in names]:
            raise UsageError(f"{place}: there is no column {missing[0]} (there are: {', '.join(names)})")

    def _record(self, row: FileRow) -> _Record:
        if row.problem is not None:
            return _Record(None, row.text, None, f"{row.place}: {row.problem}")
        if row.text is not None:
            self._check(row.place, row.cells)
        try:
            if self._columns:
                values = typed_row(row, self._columns)
                fields = {one.name: json_of(one.type, values.get(one.name)) for one in self._columns}
            else:
                fields = row.cells if isinstance(row.cells, dict) else {}
            key, at = (None if name is None else fields.get(name) for name in (self.plan.key, self.plan.timestamp))
            return _Record(_key_text(key), value_text(fields) if self._columns else row.text, _text(at), None)
        except SerializationError as error:
            shown_row = row.text or value_text({name: _shown(one) for name, one in row.cells.items()})
            return _Record(None, shown_row, None, f"{row.place}: {error}")

    @property
    def _columns(self) -> Any:
        return columns_of(self.plan.schema) if self.plan.schema else ()


def _shown(cell: Any) -> Any:
    """A cell of Parquet in a dead letter."""
    try:
        return json_value(cell)
    except SerializationError:
        return shown(cell)


def _key_text(key: Any) -> str | None:
    return None if key is None else canonical_key(whole_or_fraction(key))


def _text(at: Any) -> str | None:
    return at if at is None or isinstance(at, str) else value_text(at)

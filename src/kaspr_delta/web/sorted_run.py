"""Rows sorted by row key in a file that is mapped into memory: only the parts that a search touches are read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.agent.table_state import Cell

RowKey = str | Cell
"""A key's text; in a table with windows also the start of its window."""

# Rows of a batch. A search compares the first rows of batches, then the rows within one.
BATCH_ROWS = 8_192
_SCHEMA = pa.schema([("key", pa.string()), ("start", pa.int64()), ("at", pa.int64()), ("value", pa.string())])


class Row(NamedTuple):
    """A row: ``start`` is 0 without windows, ``at`` its timestamp in microseconds; without a value it was deleted."""

    key: str
    start: int
    at: int | None
    value: str | None


def rank(row: Row) -> tuple[bool, int, bool, Any]:
    """The sort key of rows with one row key, of which the greatest counts: the timestamp, then the value."""
    return row.at is not None, row.at or 0, row.value is not None, row.value or ""


class SortedRun:
    """A file of sorted rows. Reading needs no lock, and is fast for rows in the machine's page cache."""

    def __init__(self, path: Path) -> None:
        self._file = pa.ipc.open_file(pa.memory_map(str(path)))
        batches = [self._file.get_batch(number) for number in range(self._file.num_record_batches)]
        self._pieces = [_Piece(batch) for batch in batches]
        self._firsts = [piece.row_key(0) for piece in self._pieces]

    @classmethod
    def write(cls, path: Path, rows: pa.Table) -> SortedRun:
        """Sort rows, with the columns of Row, into a new file."""
        order = pc.sort_indices(rows, sort_keys=[("key", "ascending"), ("start", "ascending")])
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
            writer.write_table(rows.take(order), max_chunksize=BATCH_ROWS)
        return cls(path)

    def find(self, key: str, start: int) -> list[Row]:
        """The rows with a row key."""
        wanted = (key, start)
        # The rows of a key may begin in the piece before the one whose first row has it.
        number = max(0, bisect_left(self._firsts, wanted) - 1)
        found: list[Row] = []
        while number < len(self._pieces) and self._firsts[number] <= wanted:
            found.extend(self._pieces[number].find(wanted))
            number += 1
        return found

    def __iter__(self) -> Iterator[Row]:
        for piece in self._pieces:
            yield from rows_of(piece.batch)


class _Piece(Sequence[tuple[str, int]]):
    """A batch of a run: its row keys, as a sequence for bisection, and its rows."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self._keys, self._starts, self._ats, self._values = batch.columns

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, row: int) -> tuple[str, int]:  # type: ignore[override]  # slices are not needed
        return self.row_key(row)

    def row_key(self, row: int) -> tuple[str, int]:
        """The row key of a row."""
        return self._keys[row].as_py(), self._starts[row].as_py()

    def find(self, wanted: tuple[str, int]) -> Iterator[Row]:
        """The rows with a row key."""
        row = bisect_left(self, wanted)
        while row < len(self._keys) and self.row_key(row) == wanted:
            yield Row(*wanted, self._ats[row].as_py(), self._values[row].as_py())
            row += 1


def as_table(rows: Sequence[Row]) -> pa.Table:
    """Rows as a table to write."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(_SCHEMA)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)], _SCHEMA)


def rows_of(batch: pa.RecordBatch | pa.Table) -> Iterator[Row]:
    """The rows of a table with the columns of Row."""
    return map(Row._make, zip(*(column.to_pylist() for column in batch.columns), strict=True))


def best_of(rows: Iterable[Row], by: Callable[[Row], Any] = rank) -> dict[tuple[str, int], Row]:
    """For each row key the row that counts: the greatest."""
    found: dict[tuple[str, int], Row] = {}
    for row in rows:
        if row[:2] not in found or by(found[row[:2]]) < by(row):
            found[row[:2]] = row
    return found

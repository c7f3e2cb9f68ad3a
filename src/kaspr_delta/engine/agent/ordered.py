"""The ordered way: events are processed one after another, over an overlay of the agent's tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import narwhals as nw
import pyarrow as pa
from pyspark.sql import SparkSession

from kaspr_delta.engine.agent.by_column import quickest
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.state import most_of
from kaspr_delta.engine.agent.table_state import Cell, RowKey, TableState
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.streams.effect import Effect, to_arrow
from kaspr_delta.engine.streams.event import Decoder, records_of
from kaspr_delta.engine.windows import passed_windows
from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED, pass_on_interruption
from kaspr_delta.serde.instants import microseconds, moment_of
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.serde.typed_text import text_of
from kaspr_delta.storage.arrow_types import arrow_schema, batch_of
from kaspr_delta.storage.limits import Limits

_CELLS = arrow_schema("key STRING, window_start TIMESTAMP")


@dataclass(frozen=True, slots=True)
class PinnedReader:
    """Reads a table at the version it had when the batch began; one Spark job per call at most."""

    spark: SparkSession
    table: KeyedTable
    version: int

    def fetch(self, row_keys: Collection[RowKey]) -> dict[RowKey, str]:
        wanted: Any = list(row_keys)
        if self.table.plan.window is not None:
            cells = [(cell.key, moment_of(cell.start * 1_000)) for cell in wanted]
            wanted = LocalRows(self.spark, pa.Table.from_batches([batch_of(cells, _CELLS)]))
        return self._values(self.table.live_rows(self.spark, self.version, wanted))

    def scan(self, start: int | None) -> dict[RowKey, str]:
        rows = self.table.live_rows(self.spark, self.version, few=True)
        if start is not None:
            rows = rows.filter(nw.col("window_start") == nw.lit(moment_of(start * 1_000)))
        return self._values(rows)

    def _values(self, rows: Rows) -> dict[RowKey, str]:
        found = self.table.with_text_values(rows.select(*self.table.plan.row_key_columns, "value")).collect()
        row_keys: Iterable[RowKey] = found["key"].to_pylist()
        if self.table.plan.window is not None:
            starts = (microseconds(start) // 1_000 for start in found["window_start"].to_pylist())
            row_keys = map(Cell, found["key"].to_pylist(), starts)
        return dict(zip(row_keys, found["value"].to_pylist(), strict=True))


def run_in_order(executor: Executor, pieces: Iterable[pa.Table], limits: Limits) -> Iterator[pa.RecordBatch]:
    """All effects of records in pieces: event by event, then the last write of each key, then windows that ended.

    With ``take``, the records left over at the end of a piece are one event as well.
    """
    way, most, seq = quickest(executor), most_of(executor.plan.take), 0
    for piece in pieces:
        for stretch in piece.combine_chunks().to_batches(max_chunksize=max(1, limits.keys_ahead // most) * most):
            for table in executor.tables.values():
                table.likely = partial(likely_keys, stretch, executor.decoder, table)
            for effects in way.effects(stretch, seq):
                yield effects
                seq += effects.num_rows
    yield to_arrow(_afterwards(executor), seq)


def _afterwards(executor: Executor) -> Iterator[Effect]:
    for name, table in executor.tables.items():
        for row_key, (text, at, stream) in table.written.items():
            key, start = (row_key.key, row_key.start * 1_000) if isinstance(row_key, Cell) else (row_key, None)
            value = None if text is None else text.encode()
            yield Effect("write", name, key.encode(), value, timestamp=at, window_start=start, stream=stream)
    for name, clock in executor.clocks.items():
        yield from passed_windows(name, clock)


def likely_keys(records: pa.RecordBatch, decoder: Decoder, table: TableState) -> set[Any]:
    """Row keys that events will probably read: their own keys and the scalar leaves of their values.

    In a table with windows they are in the windows of their event's time.
    """
    found, clock, text = set[Any](), table.clock, text_of(table.plan)
    for record in records_of(records):
        try:
            key, value = decoder(record)
            starts = None if clock is None else clock.window.starts(clock.time_of(record, value))
        except AUTHORS_CODE_FAILED as error:  # bytes, or the author's selector: a dead letter in its turn
            pass_on_interruption(error)
            continue
        keys = _keys(text, key, value)
        found.update(keys if starts is None else (Cell(one, start) for one in keys for start in starts))
    return found


def _keys(text: TableText, key: Any, value: Any) -> Iterator[str]:
    for candidate in (key, *_leaves(value)):
        try:
            yield text.key(candidate)
        except SerializationError:
            continue


def _leaves(value: Any) -> Iterator[Any]:
    """The scalars in a value, at any depth."""
    left = [value]
    while left:
        match left.pop():
            case dict() as mapping:
                left.extend(mapping.values())
            case list() | tuple() as items:
                left.extend(items)
            case None:
                continue
            case scalar:
                yield scalar

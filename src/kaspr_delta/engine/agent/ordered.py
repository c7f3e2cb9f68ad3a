"""The ordered way: events are processed one after another, over an overlay of the agent's tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from kaspr_delta.engine.agent.by_column import ByColumn
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.state import AgentState, most_of, taken
from kaspr_delta.engine.agent.table_state import AnyState, Cell, TableState
from kaspr_delta.engine.rows.keyed_table import KeyedTable, state_table
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.engine.streams.effect import Effect, to_arrow
from kaspr_delta.engine.streams.event import Decoder, InputRecord, moment_of
from kaspr_delta.engine.streams.input_rows import records_of
from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import AgentPlan, TaskPlan
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.limits import Limits
from kaspr_delta.storage.spark.frames import collected
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkTableReader:
    """Reads a table at the version it had when the batch began; one Spark job per call at most."""

    spark: SparkSession
    table: KeyedTable
    version: int

    def fetch(self, row_keys: Collection[str]) -> dict[str, str]:
        """The values of the keys that the table has."""
        return self._rows(self.table.live_rows(self.spark, self.version, list(row_keys)))

    def scan(self, start: int | None) -> dict[str, str]:
        """All rows."""
        return self._rows(self.table.live_rows(self.spark, self.version))

    def _rows(self, rows: Rows) -> dict[str, str]:
        found = self.table.with_text_values(rows.select("key", "value")).collect()
        return dict(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))


@dataclass(frozen=True, slots=True)
class SparkWindowReader:
    """Reads a table with windows at the version it had when the batch began; one Spark job per call."""

    spark: SparkSession
    table: KeyedTable
    version: int

    def fetch(self, row_keys: Collection[Cell]) -> dict[Cell, str]:
        """The values of the cells that the table has."""
        cells = [(cell.key, moment_of(cell.start * 1_000)) for cell in row_keys]
        wanted = self.spark.createDataFrame(cells, "key STRING, window_start TIMESTAMP")
        return self._rows(self.table.live_rows(self.spark, self.version, SparkRows(wanted)))

    def scan(self, start: int | None) -> dict[Cell, str]:
        """All rows of one window."""
        rows = self.table.live_rows(self.spark, self.version)
        return self._rows(rows.made(rows.df.where(F.col("window_start") == moment_of((start or 0) * 1_000))))

    def _rows(self, rows: Rows) -> dict[Cell, str]:
        texts = self.table.with_text_values(rows).df
        found = collected(texts.select("key", F.unix_millis("window_start").alias("start"), "value"))
        cells = map(Cell, found["key"].to_pylist(), found["start"].to_pylist())
        return dict(zip(cells, found["value"].to_pylist(), strict=True))


def clocks_of(application: Plan, plan: AgentPlan | TaskPlan, state: AgentState) -> dict[str, Clock]:
    """The stream times of the pipeline's tables with windows, as the previous batch left them."""
    tables = [application.known_table(name) for name in plan.tables]
    return {
        table.name: Clock(table.window, plan.name, state.clocks.get(table.name, {}))
        for table in tables
        if table.window is not None
    }


def opened(  # noqa: PLR0913, PLR0917  the parts of a batch
    spark: SparkSession,
    delta: Tables,
    application: Plan,
    plan: AgentPlan | TaskPlan,
    state: AgentState,
    likely: LikelyKeys | None = None,
) -> tuple[dict[str, AnyState], dict[str, Clock]]:
    """The pipeline's tables and their clocks, at pinned versions: the next batch sees later writes of others."""
    clocks = clocks_of(application, plan, state)
    tables: dict[str, AnyState] = {}
    for table in map(application.known_table, plan.tables):
        live = state_table(delta, table)
        version = live.newest(spark).version
        text = live.text
        clock = clocks.get(table.name)
        if clock is None:
            keys = likely.of(text) if likely else tuple
            tables[table.name] = TableState(table, SparkTableReader(spark, live, version), keys)
        else:
            cells = likely.cells_of(text, clock) if likely else tuple
            tables[table.name] = TableState(table, SparkWindowReader(spark, live, version), cells)
    return tables, clocks


@dataclass
class LikelyKeys:
    """Keys that the next events will probably read: their own keys and the scalar leaves of their values.

    ``events`` is the stretch of records that is being processed; each stretch is searched once.
    """

    decoder: Decoder
    events: pa.RecordBatch | None = None

    def of(self, text: TableText) -> Callable[[], Collection[str]]:
        """A function that returns the likely keys of the current stretch, and nothing when called again for it."""
        return self._once_per_stretch(lambda _, key, value: _keys(text, key, value))

    def cells_of(self, text: TableText, clock: Clock) -> Callable[[], Collection[Cell]]:
        """The same for a table with windows: the likely keys, in the windows of their event's time."""

        def cells(record: InputRecord, key: Any, value: Any) -> Iterator[Cell]:
            try:
                starts = clock.window.starts(clock.time_of(record, value))
            except Exception:  # noqa: BLE001  the author's selector; the event becomes a dead letter in its turn
                return
            yield from (Cell(row_key, start) for row_key in _keys(text, key, value) for start in starts)

        return self._once_per_stretch(cells)

    def _once_per_stretch(
        self, row_keys: Callable[[InputRecord, Any, Any], Iterable[Any]]
    ) -> Callable[[], Collection[Any]]:
        seen: pa.RecordBatch | None = None

        def likely() -> Collection[Any]:
            nonlocal seen
            if self.events is None or self.events is seen:
                return ()
            seen = self.events
            return {row_key for record in records_of(seen) for row_key in self._of(record, row_keys)}

        return likely

    def _of(self, record: InputRecord, row_keys: Callable[[InputRecord, Any, Any], Iterable[Any]]) -> Iterable[Any]:
        try:
            return row_keys(record, *self.decoder(record))
        except SerializationError:
            return ()  # the event becomes a dead letter in its turn


def run_in_order(
    executor: Executor, pieces: Iterable[pa.Table], likely: LikelyKeys, limits: Limits
) -> Iterator[pa.RecordBatch]:
    """All effects of records in pieces: sends and dead letters event by event, then the last write of each key.

    With ``take``, the records left over at the end of a piece are one event as well.
    """
    by_column, most, seq = ByColumn.of(executor), most_of(executor.plan.take), 0
    for piece in pieces:
        for stretch in piece.combine_chunks().to_batches(max_chunksize=max(1, limits.keys_ahead // most) * most):
            likely.events = stretch
            found = _one_by_one(executor, stretch, seq) if by_column is None else by_column.effects(stretch, seq)
            for effects in found:
                yield effects
                seq += effects.num_rows
    yield to_arrow(_afterwards(executor), seq)


def _one_by_one(executor: Executor, records: pa.RecordBatch, seq: int) -> Iterator[pa.RecordBatch]:
    groups = taken(list(records_of(records)), executor.plan.take)
    together = executor.plan.take is not None
    yield to_arrow(
        (
            effect
            for group in groups
            for effect in (executor.process_together(group) if together else executor.process(group[0]))
        ),
        seq,
    )


def _afterwards(executor: Executor) -> Iterator[Effect]:
    for state in executor.tables.values():
        yield from _writes(state)
    for name, clock in executor.clocks.items():
        yield from passed_windows(name, clock)


def passed_windows(table: str, clock: Clock) -> Iterator[Effect]:
    """Effects for the windows that the streams passed in this batch: windows close, and later their rows expire."""
    closing = clock.closed() if clock.window.emit == "close" else ()
    for kind, windows in (("close", closing), ("expire", clock.expired())):
        for passed in windows:
            upto, after = passed.upto * 1_000, None if passed.after is None else passed.after * 1_000
            yield Effect(kind, table, None, None, timestamp=upto, window_start=after, stream=passed.stream)


def _writes(state: AnyState) -> Iterator[Effect]:
    for row_key, written in state.written.items():
        key, start = (row_key.key, row_key.start * 1_000) if isinstance(row_key, Cell) else (row_key, None)
        data = None if written.value is None else written.value.encode()
        yield Effect(
            "write",
            state.plan.name,
            key.encode(),
            data,
            timestamp=written.timestamp,
            window_start=start,
            stream=written.stream,
        )


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

"""The ordered way: an agent with tables, its events one after another over an overlay of the tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kaspr_delta.engine.agent.clock import Clock
from kaspr_delta.engine.agent.effect import Effect
from kaspr_delta.engine.agent.event import Decoder, InputRecord, moment_of
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.state import AgentState
from kaspr_delta.engine.agent.table_state import AnyState, Cell, TableState
from kaspr_delta.engine.live_table import LiveTable, state_of
from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.application_plan import Plan
from kaspr_delta.plan.definition import AgentPlan, TaskPlan
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.delta import Delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Events whose likely keys are fetched in one read.
_AHEAD = 5_000


@dataclass(frozen=True, slots=True)
class SparkTableReader:
    """Reads a table at the version it had when the batch began; one Spark job a call."""

    spark: SparkSession
    table: LiveTable
    version: int

    def fetch(self, places: Collection[str]) -> dict[str, str]:
        """The values of those of the keys that are there."""
        wanted = self.spark.createDataFrame([(key,) for key in places], "key STRING")
        return self._rows(self.table.live_rows(self.spark, self.version, wanted))

    def scan(self, start: int | None) -> dict[str, str]:
        """All rows."""
        return self._rows(self.table.live_rows(self.spark, self.version))

    @staticmethod
    def _rows(rows: DataFrame) -> dict[str, str]:
        found = rows.select("key", "value").toArrow()
        return dict(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))


@dataclass(frozen=True, slots=True)
class SparkWindowReader:
    """Reads a table with windows at the version it had when the batch began; one Spark job a call."""

    spark: SparkSession
    table: LiveTable
    version: int

    def fetch(self, places: Collection[Cell]) -> dict[Cell, str]:
        """The values of those of the cells that are filled."""
        cells = [(cell.key, moment_of(cell.start * 1_000)) for cell in places]
        wanted = self.spark.createDataFrame(cells, "key STRING, window_start TIMESTAMP")
        return self._rows(self.table.live_rows(self.spark, self.version, wanted))

    def scan(self, start: int | None) -> dict[Cell, str]:
        """All rows of one window."""
        rows = self.table.live_rows(self.spark, self.version)
        return self._rows(rows.where(F.col("window_start") == moment_of((start or 0) * 1_000)))

    @staticmethod
    def _rows(rows: DataFrame) -> dict[Cell, str]:
        found = rows.select("key", F.unix_millis("window_start").alias("start"), "value").toArrow()
        cells = map(Cell, found["key"].to_pylist(), found["start"].to_pylist())
        return dict(zip(cells, found["value"].to_pylist(), strict=True))


def clocks_of(application: Plan, plan: AgentPlan | TaskPlan, state: AgentState) -> dict[str, Clock]:
    """The times of the tables with windows that a pipeline is handed, as the batch before left them."""
    tables = [application.known_table(name) for name in plan.tables]
    return {
        table.name: Clock(table.window, plan.name, state.clocks.get(table.name, {}))
        for table in tables
        if table.window is not None
    }


def opened(  # noqa: PLR0913, PLR0917  what a batch is made of
    spark: SparkSession,
    delta: Delta,
    application: Plan,
    plan: AgentPlan | TaskPlan,
    state: AgentState,
    likely: LikelyKeys | None = None,
) -> tuple[dict[str, AnyState], dict[str, Clock]]:
    """The tables that a pipeline is handed, pinned: what others write meanwhile is seen by the next batch."""
    clocks = clocks_of(application, plan, state)
    tables: dict[str, AnyState] = {}
    for table in map(application.known_table, plan.tables):
        live = state_of(delta, table)
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
    """Keys that events to come will probably ask for: their own key and the scalar leaves of their values."""

    records: list[InputRecord]
    decoder: Decoder
    at: int = 0

    def of(self, text: TableText) -> Callable[[], Collection[str]]:
        """A function that gives the likely keys of the events from the current one on, once per stretch of events."""
        return self._once_per_stretch(lambda _, key, value: _keys(text, key, value))

    def cells_of(self, text: TableText, clock: Clock) -> Callable[[], Collection[Cell]]:
        """The same for a table with windows: those keys in the windows of their event's time."""

        def cells(record: InputRecord, key: Any, value: Any) -> Iterator[Cell]:
            try:
                starts = clock.window.starts(clock.time_of(record, value))
            except Exception:  # noqa: BLE001  the author's selector; it becomes a dead letter when its turn comes
                return
            yield from (Cell(place, start) for place in _keys(text, key, value) for start in starts)

        return self._once_per_stretch(cells)

    def _once_per_stretch(
        self, places: Callable[[InputRecord, Any, Any], Iterable[Any]]
    ) -> Callable[[], Collection[Any]]:
        done = 0

        def likely() -> Collection[Any]:
            nonlocal done
            if self.at < done:
                return ()
            first, done = self.at, self.at + _AHEAD
            return {place for record in self.records[first:done] for place in self._of(record, places)}

        return likely

    def _of(self, record: InputRecord, places: Callable[[InputRecord, Any, Any], Iterable[Any]]) -> Iterable[Any]:
        try:
            return places(record, *self.decoder(record))
        except SerializationError:
            return ()  # it becomes a dead letter when its turn comes


def run_in_order(executor: Executor, groups: Iterable[Sequence[InputRecord]], likely: LikelyKeys) -> Iterator[Effect]:
    """All effects of a batch: sends and dead letters event by event, then the last write of every key written.

    A group of records is one event (see ``take``).
    """
    likely.at = 0
    for group in groups:
        yield from executor.process(group[0]) if executor.plan.take is None else executor.process_together(group)
        likely.at += len(group)
    for state in executor.tables.values():
        yield from _writes(state)
    for name, clock in executor.clocks.items():
        yield from passed_windows(name, clock)


def passed_windows(table: str, clock: Clock) -> Iterator[Effect]:
    """What becomes of windows that the streams of a batch have left behind: they close, and later their rows leave."""
    closing = clock.closed() if clock.window.emit == "close" else ()
    for kind, windows in (("close", closing), ("expire", clock.expired())):
        for passed in windows:
            upto, after = passed.upto * 1_000, None if passed.after is None else passed.after * 1_000
            yield Effect(kind, table, None, None, timestamp=upto, window_start=after, stream=passed.stream)


def _writes(state: AnyState) -> Iterator[Effect]:
    for place, written in state.written.items():
        key, start = (place.key, place.start * 1_000) if isinstance(place, Cell) else (place, None)
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
    """The scalars in a value, however deep."""
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

"""The ordered way: an agent with tables, its events one after another over an overlay of the tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaspr_delta.engine.agent.effect import Effect
from kaspr_delta.engine.agent.event import Decoder, InputRecord
from kaspr_delta.engine.agent.executor import AgentExecutor
from kaspr_delta.engine.agent.tables import TableState
from kaspr_delta.engine.live_table import LiveTable
from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.table_text import TableText

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Events whose likely keys are fetched in one read.
_AHEAD = 5_000


@dataclass(frozen=True, slots=True)
class SparkTableReader:
    """Reads a table at the version it had when the batch began."""

    spark: SparkSession
    table: LiveTable
    version: int

    def fetch(self, keys: Collection[str]) -> dict[str, str]:
        """The values of those of the keys that are there; one Spark job."""
        wanted = self.spark.createDataFrame([(key,) for key in keys], "key STRING")
        return self._rows(wanted)

    def scan(self) -> dict[str, str]:
        """All rows."""
        return self._rows(None)

    def _rows(self, keys: Any) -> dict[str, str]:
        rows = self.table.live_rows(self.spark, self.version, keys).select("key", "value").toArrow()
        return dict(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))


@dataclass
class LikelyKeys:
    """Keys that events to come will probably ask for: their own key and the scalar leaves of their values."""

    records: list[InputRecord]
    decoder: Decoder
    at: int = 0

    def of(self, text: TableText) -> Callable[[], Collection[str]]:
        """A function that gives the likely keys of the events from the current one on, once per stretch of events."""
        done = 0

        def likely() -> Collection[str]:
            nonlocal done
            if self.at < done:
                return ()
            done = self.at + _AHEAD
            return set(self._keys(text, self.records[self.at : done]))

        return likely

    def _keys(self, text: TableText, records: list[InputRecord]) -> Iterator[str]:
        for record in records:
            try:
                event = self.decoder(record)
            except SerializationError:
                continue  # it becomes a dead letter when its turn comes
            for candidate in (event.key, *_leaves(event.value)):
                try:
                    yield text.key(candidate)
                except SerializationError:
                    continue


def run_in_order(executor: AgentExecutor, records: list[InputRecord], likely: LikelyKeys) -> Iterator[Effect]:
    """All effects of a batch: sends and dead letters event by event, then the last write of every key written."""
    for index, record in enumerate(records):
        likely.at = index
        yield from executor.process(record)
    for state in executor.tables.values():
        yield from _writes(state)


def _writes(state: TableState) -> Iterator[Effect]:
    for key, (value, timestamp) in state.written.items():
        data = None if value is None else value.encode()
        yield Effect("write", state.plan.name, key.encode(), data, None, timestamp)


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

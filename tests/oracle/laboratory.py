"""One application that runs many cases side by side: it writes their events, and reads the outcome of each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.limits import Limits
from kaspr_delta.storage.side_by_side import side_by_side
from kaspr_delta.storage.tables import Upsert
from tests.oracle.case import Case, Emission, Event
from tests.oracle.compare import Outcome
from tests.oracle.families import Lane, lanes, write_manifests
from tests.oracle.outputs import Result, ResultRow
from tests.oracle.rows import RowForm, TableRow
from tests.oracle.turns import Turn
from tests.oracle.wrapping import wrapped, wrapped_key

Record = dict[str, Any]
Commit = Callable[[], object]


class Laboratory:
    """An application in a folder, with a resource for every set of parameters among the cases.

    It runs on the active session; unless ``on_spark``, without Spark as far as that goes. ``limits`` are those of the
    application.
    """

    def __init__(
        self, cases: Sequence[Case], folder: Path, *, on_spark: bool = True, limits: Limits | None = None
    ) -> None:
        self.cases, self.lanes = cases, lanes(cases)
        write_manifests(folder / "manifests", self.lanes)
        spark = SparkSession.active() if on_spark else None
        warehouse = folder / "warehouse"
        self.app = Application.open(folder / "manifests", warehouse=warehouse, spark=spark, limits=limits or Limits())
        if not on_spark:  # creates the tables
            self.app.run()
        # The lane and partition of each case, by its number.
        self._places = {number: (lane, n) for lane in self.lanes for n, number in enumerate(lane.numbers)}
        # The version of each lane's output after each run, by the lane's name.
        self._versions: dict[str, list[int]] = {lane.name: [] for lane in self.lanes}

    def run_turn(self, turn: Turn) -> None:
        """Write the events of a turn, and run the resources of their cases until quiet."""
        self._write_events(turn)
        concerned = {self._places[number][0].name for number in turn}
        self.app.run(only=[lane.resource for lane in self.lanes if lane.name in concerned])
        for lane in self.lanes:
            versions = self._versions[lane.name]
            last = versions[-1] if versions else 0
            versions.append(lane.family.output.version(self.app, lane.name) if lane.name in concerned else last)

    def outcomes(self) -> list[Outcome]:
        """The outcome of each case."""
        runs = max((len(versions) for versions in self._versions.values()), default=0)
        emitted: list[list[list[Emission]]] = [[[] for _ in range(runs)] for _ in self.cases]
        final_rows: list[dict[str, str]] = [{} for _ in self.cases]
        for emissions, rows in side_by_side([partial(self._read, lane) for lane in self.lanes]):
            for run, number, emission in emissions:
                emitted[number][run].append(emission)
            for number, key, value in rows:
                # Two rows of one key make a text that equals no recorded result.
                earlier = final_rows[number].get(key)
                final_rows[number][key] = value if earlier is None else f"{earlier} and {value}"
        return [Outcome(*outcome) for outcome in zip(emitted, final_rows, strict=True)]

    def _write_events(self, turn: Turn) -> None:
        """Write a turn: one commit for each topic; for each table one with the first event of every case, and so on.

        A commit of a table has one row per key: the second event of a case needs another commit.
        """
        commits: list[Commit] = [
            partial(self.app.topic(topic).produce, records) for topic, records in self._records(turn).items()
        ]
        for events in zip_longest(*turn.values()):
            rows = self._rows(dict(zip(turn, events, strict=True)))
            commits += [partial(self._write, *place, written) for place, written in rows.items()]
            side_by_side(commits)
            commits = []

    def _records(self, turn: Turn) -> dict[str, list[Record]]:
        """The records of a turn, by topic."""
        found: dict[str, list[Record]] = {}
        for number, events in turn.items():
            lane, partition = self._places[number]
            for event in events:
                if lane.family.inputs[event.side] == "topic":
                    record = {
                        "key": wrapped_key(number, event.key),
                        "value": wrapped(number, self.cases[number], event.value),
                        "timestamp": event.ts,
                        "partition": partition,
                    }
                    found.setdefault(lane.input(event.side), []).append(record)
        return found

    def _rows(self, events: Mapping[int, Event | None]) -> dict[tuple[str, RowForm], list[TableRow]]:
        """The rows of events, at most one of each case, by table and form of the rows."""
        found: dict[tuple[str, RowForm], list[TableRow]] = {}
        for number, event in events.items():
            lane, _ = self._places[number]
            if event is not None and lane.family.inputs[event.side] == "table":
                rows = lane.family.rows
                row = rows.row(number, self.cases[number], event)
                found.setdefault((lane.input(event.side), rows), []).append(row)
        return found

    def _write(self, table: str, row_form: RowForm, rows: Sequence[TableRow]) -> None:
        """Write rows as a foreign writer would, each with its event's time, even if the value is unchanged."""
        schema = arrow_schema(row_form.columns)
        written = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
        name = self.app.table(table).table.plan.delta_name
        upsert = Upsert(on=row_form.key, compare=row_form.compare, keep="keep")
        self.app.delta.merge(self.app._spark, written, name, upsert)

    def _read(self, lane: Lane) -> tuple[list[Result], list[ResultRow]]:
        output, versions = lane.family.output, self._versions[lane.name]
        emissions = output.emissions(self.app, lane.name, lambda version: bisect_left(versions, version))
        return list(emissions), list(output.rows(self.app, lane.name))

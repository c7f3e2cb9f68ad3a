"""Foreign-key joins of two tables: many cases in one application, told apart by the first part of their keys.

A case's key ``"k1"`` is ``[7,"k1"]`` in the tables, where 7 is the number of the case. Its keys keep their order, and
no case sees another's rows. Kafka Streams drops records without a key; here such a row is written, belongs to no case
and must trouble none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

from kaspr_delta import Application
from kaspr_delta.engine.query import side_by_side
from kaspr_delta.serde.json_text import canonical_key, value_text
from tests.oracle.case import Case, Emission, Event, text
from tests.oracle.compare import Difference, Outcome, at_the_end, event_by_event
from tests.oracle.progress import steps

TYPES = ("inner", "left")
_MANIFESTS = Path(__file__).with_name("foreign_key.yaml")
_ROWS = "key STRING, value STRING, timestamp TIMESTAMP, keep BOOLEAN"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Cuts are the same for all cases of a run: cases that begin later are cut elsewhere.
_MOST_DELAY = 5
_CHANCE_OF_A_CUT = 0.4

Row = tuple[str | None, str | None, datetime, bool]


def differences(cases: Sequence[Case], folder: Path, seed: int) -> list[Difference | None]:
    """Run the cases in both modes, each on a warehouse of its own; case by case the first difference, or None."""
    found: list[Difference | None] = [None] * len(cases)
    for name, (run, compare) in MODES.items():
        outcomes = run(cases, folder / name.replace(" ", "-"), random.Random(seed))  # noqa: S311  no secret
        for number, (case, outcome) in enumerate(zip(cases, outcomes, strict=True)):
            difference = compare(case, outcome)
            if difference is not None and found[number] is None:
                found[number] = Difference(f"{name}, {difference.where}", difference.expected, difference.got)
    return found


def one_event_per_batch(cases: Sequence[Case], warehouse: Path, dice: random.Random) -> list[Outcome]:  # noqa: ARG001
    """After each event the joins run until they are quiet."""
    joins = _Joins(cases, warehouse)
    for step in steps(_length(cases), f"{len(cases)} foreign-key joins, one event per batch"):
        joins.commit(_due(cases, [step] * len(cases)))
        joins.run()
    return joins.outcomes()


def random_batch_cuts(cases: Sequence[Case], warehouse: Path, dice: random.Random) -> list[Outcome]:
    """Each event is a commit of its own, but the joins run only now and then."""
    joins = _Joins(cases, warehouse)
    most_delay = min(_MOST_DELAY, _length(cases) // 2)
    delays = [dice.randint(0, most_delay) for _ in cases]
    last = _length(cases) + most_delay - 1
    for step in steps(last + 1, f"{len(cases)} foreign-key joins, random batch cuts"):
        joins.commit(_due(cases, [step - delay for delay in delays]))
        if step == last or dice.random() < _CHANCE_OF_A_CUT:
            joins.run()
    return joins.outcomes()


Mode = tuple[
    Callable[[Sequence[Case], Path, random.Random], list[Outcome]], Callable[[Case, Outcome], Difference | None]
]
MODES: Mapping[str, Mode] = {
    "one event per batch": (one_event_per_batch, event_by_event),
    "random batch cuts": (random_batch_cuts, at_the_end),
}


@dataclass
class _Joins:
    """Both joins on one warehouse, and what they emitted, case by case and run by run."""

    cases: Sequence[Case]
    warehouse: Path
    app: Application = field(init=False)
    types: Sequence[str] = field(init=False)
    emitted: list[list[list[Emission]]] = field(init=False)
    _read: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.app = Application.open(_MANIFESTS, warehouse=self.warehouse)
        self.types = [name for name in TYPES if any(case.type == name for case in self.cases)]
        self.emitted = [[] for _ in self.cases]
        self._read = dict.fromkeys(self.types, 0)

    def commit(self, events: Mapping[int, Event]) -> None:
        """Write events by number of their case: one commit per table."""
        rows: dict[str, list[Row]] = {}
        for number, event in events.items():
            case = self.cases[number]
            rows.setdefault(f"{event.side}-of-{case.type}", []).append(_row(number, case, event))
        side_by_side([partial(self._write, table, written) for table, written in rows.items()])

    def run(self) -> None:
        """Run the joins until they are quiet, and read what they emitted."""
        self.app.run(only=[f"join/{name}" for name in self.types])
        for emissions in self.emitted:
            emissions.append([])
        for name in self.types:
            records = self.app.channel(f"{name}-channel").records()
            for record in records[self._read[name] :]:
                number, key = record["key"]
                self.emitted[number][-1].append(Emission(text(key), _value(record["value"]), record["timestamp"]))
            self._read[name] = len(records)

    def outcomes(self) -> list[Outcome]:
        """What each case put out."""
        results: list[dict[str, str]] = [{} for _ in self.cases]
        for name in self.types:
            for (number, key), value in self.app.join(name).rows():
                rows, row = results[number], _value(value) or ""
                # Two rows of one key are no result that was ever recorded.
                rows[text(key)] = f"{rows[text(key)]} and {row}" if text(key) in rows else row
        return [Outcome(emitted, rows) for emitted, rows in zip(self.emitted, results, strict=True)]

    def _write(self, table: str, rows: list[Row]) -> None:
        """Write as somebody else would: with the event's own time, which a row gets also when its value is the same."""
        app = self.app
        written = app.spark.createDataFrame(rows, _ROWS).coalesce(1)
        name = app.table(table).table.plan.delta_name
        app.delta.upsert(written, name, compare=("value", "timestamp"), keep="keep")


def _row(number: int, case: Case, event: Event) -> Row:
    value = event.value
    if value is not None and event.side == "left":
        value = {"case": number, "fk_field": case.params.get("fk_field"), "row": value}
    key = None if event.key is None else canonical_key([number, event.key])
    moment = _EPOCH + timedelta(milliseconds=event.ts)
    return key, None if value is None else value_text(value), moment, value is not None


def _value(value: Any) -> str | None:
    """A result of the engine as Kafka Streams recorded it: the left row without its wrapping."""
    return None if value is None else text({"left": value["left"]["row"], "right": value["right"]})


def _due(cases: Sequence[Case], turns: Sequence[int]) -> dict[int, Event]:
    """By number of the case, the event whose turn it is; none before the first and after the last."""
    return {
        number: case.events[turn]
        for number, (case, turn) in enumerate(zip(cases, turns, strict=True))
        if 0 <= turn < len(case.events)
    }


def _length(cases: Sequence[Case]) -> int:
    return max((len(case.events) for case in cases), default=0)

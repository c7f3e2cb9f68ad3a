"""Whether what came out is what Kafka Streams put out. Pure: no Spark, no files.

Two things are not compared, because this engine knows less or says less on purpose:

* Kafka Streams emits a result again that already holds, and tombstones of keys that have no result. It calls these
  superfluous itself; here only what differs is emitted. They are dropped from what is expected, never from what came.
* Timestamps of what a deletion causes. A row deleted from a Delta table leaves no event time behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from tests.oracle.case import Case, Emission, Rows

NOTHING = "nothing"
_SHORT = 160


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one case put out: emissions, run by run and in order, and its rows of the result table."""

    emitted: Sequence[Sequence[Emission]]
    result: Rows


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing in which an outcome is not what was recorded."""

    where: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.where}: expected {_short(self.expected)}, got {_short(self.got)}"


def event_by_event(case: Case, outcome: Outcome) -> Difference | None:
    """Compare where the engine ran after every event: each event's emissions in their order, then what holds."""
    return _of_events(case, outcome.emitted) or at_the_end(case, outcome)


def at_the_end(case: Case, outcome: Outcome) -> Difference | None:
    """Compare what holds after the last event: the result table, and what a reader of the channel makes of it."""
    expected = case.expected.final or {}
    folded = fold(chain.from_iterable(outcome.emitted))
    return _of_rows("final result table", expected, outcome.result) or _of_rows("final channel", expected, folded)


def fold(emissions: Iterable[Emission]) -> Rows:
    """The last value of every key, without tombstones."""
    last = {emission.key: emission.value for emission in emissions}
    return {key: value for key, value in last.items() if value is not None}


def without_superfluous(emitted: Iterable[Iterable[Emission]]) -> list[list[Emission]]:
    """Emissions of a table that changed something: not the result that the key had, nor a tombstone where none was."""
    holds: dict[str, str | None] = {}
    kept: list[list[Emission]] = []
    for emissions in emitted:
        kept.append([])
        for emission in emissions:
            if emission.value != holds.get(emission.key):
                holds[emission.key] = emission.value
                kept[-1].append(emission)
    return kept


def _of_events(case: Case, emitted: Sequence[Sequence[Emission]]) -> Difference | None:
    for number, (expected, got) in enumerate(zip_longest(without_superfluous(case.expected.emitted), emitted), start=1):
        event = case.events[number - 1] if number <= len(case.events) else None
        timed = event is not None and event.value is not None
        where = f"event {number}" if event is not None else "after the last event"
        for one, other in zip_longest(expected or (), got or ()):
            if not _same(one, other, timed=timed):
                return Difference(where, _shown(one), _shown(other))
    return None


def _same(expected: Emission | None, got: Emission | None, *, timed: bool) -> bool:
    if expected is None or got is None:
        return False
    if (expected.key, expected.value) != (got.key, got.value):
        return False
    return not timed or expected.ts == got.ts


def _of_rows(where: str, expected: Rows, got: Rows) -> Difference | None:
    for key in sorted({*expected, *got}):
        if expected.get(key) != got.get(key):
            return Difference(f"{where}, key {key}", expected.get(key, NOTHING), got.get(key, NOTHING))
    return None


def _shown(emission: Emission | None) -> str:
    if emission is None:
        return NOTHING
    return f"{emission.key} at {emission.ts} {emission.value or 'tombstone'}"


def _short(shown: str) -> str:
    return shown if len(shown) <= _SHORT else f"{shown[:_SHORT]}…"

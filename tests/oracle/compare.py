"""The comparison of a case's outcome with the output of Kafka Streams. Pure: no Spark, no files.

Two things are not compared, because this engine emits less on purpose, or lacks the information:

* For tables, Kafka Streams emits unchanged results again, and tombstones of keys without a result. Its own name for
  these is superfluous. This engine emits only differences. Superfluous emissions are dropped from the expected ones,
  never from the actual ones. For streams nothing is dropped.
* The timestamps of emissions that a deletion causes. A row deleted from a Delta table leaves no event time behind.

A rule may ignore the order of an event's emissions: the feed of a table of aggregates has the rows that an event
changed, not their order. In Kafka Streams the only order among them is that a row leaves one group before it joins
another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Literal

from tests.oracle.case import Case, Emission, Rows

NOTHING = "nothing"
_SHORT = 160


def no_keys(case: Case) -> frozenset[str]:  # noqa: ARG001
    """None of a case's keys."""
    return frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """How the results of a shape are compared. The defaults are for joins of two tables.

    A ``stream`` has no rows, and each of its emissions counts. Emissions of one event are ``ordered``, or in any order.
    Timestamps are compared ``always``; only if a ``value`` caused the emission; or ``until a deletion`` took part in
    the result, if a result keeps the greatest time of its inputs. ``optional_keys`` gives the keys of a case whose rows
    may be absent at the end, because their inputs may have come and gone inside a batch.
    """

    stream: bool = False
    ordered: bool = True
    times: Literal["always", "value", "until a deletion"] = "value"
    optional_keys: Callable[[Case], frozenset[str]] = no_keys


TABLE = Rule()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The output of one case: emissions, run by run and in order, and its rows of the result table."""

    emitted: Sequence[Sequence[Emission]]
    result: Rows


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between an outcome and the recorded case."""

    where: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.where}: expected {_short(self.expected)}, got {_short(self.got)}"


def difference_per_event(case: Case, outcome: Outcome, rule: Rule = TABLE) -> Difference | None:
    """Compare an outcome with a run after every event: the emissions of each event, then the final rows."""
    found = _event_difference(case, outcome.emitted, rule)
    return found or final_difference(case, outcome, replace(rule, optional_keys=no_keys))


def final_difference(case: Case, outcome: Outcome, rule: Rule = TABLE) -> Difference | None:
    """Compare the outcome of all events: the result table, and the rows that the emissions add up to.

    Of a stream: all emissions, in any order.
    """
    if rule.stream:
        return _emission_difference(chain.from_iterable(case.expected.emitted), chain.from_iterable(outcome.emitted))
    absent = rule.optional_keys(case) - outcome.result.keys()
    expected = {key: value for key, value in (case.expected.final or {}).items() if key not in absent}
    folded = fold(chain.from_iterable(outcome.emitted))
    found = _row_difference("final result table", expected, outcome.result)
    return found or _row_difference("final channel", expected, folded)


def fold(emissions: Iterable[Emission]) -> Rows:
    """The last value of every key, without tombstones."""
    last = {emission.key: emission.value for emission in emissions}
    return {key: value for key, value in last.items() if value is not None}


def without_superfluous(emitted: Iterable[Iterable[Emission]]) -> list[list[Emission]]:
    """Emissions of a table without unchanged results, and without tombstones of keys that had no result."""
    last_values: dict[str, str | None] = {}
    kept: list[list[Emission]] = []
    for emissions in emitted:
        kept.append([])
        for emission in emissions:
            if emission.value != last_values.get(emission.key):
                last_values[emission.key] = emission.value
                kept[-1].append(emission)
    return kept


def _event_difference(case: Case, emitted: Sequence[Sequence[Emission]], rule: Rule) -> Difference | None:
    recorded = case.expected.emitted if rule.stream else without_superfluous(case.expected.emitted)
    timeless: set[str] = set()
    for number, (expected, got) in enumerate(zip_longest(recorded, emitted, fillvalue=()), start=1):
        event = case.events[number - 1] if number <= len(case.events) else None
        where = f"event {number}" if event is not None else "after the last event"
        deleted = event is not None and event.value is None and rule.times != "always"
        if deleted and rule.times == "until a deletion":  # also superfluous emissions: they have its time too
            timeless.update(emission.key for emission in case.expected.emitted[number - 1])
        for one, other in zip_longest(_arranged(expected, rule), _arranged(got, rule)):
            if one is not None and other is not None and (deleted or one.key in timeless):
                other = replace(other, ts=one.ts)  # noqa: PLW2901  its time is not compared
            if one != other:
                return Difference(where, _shown(one), _shown(other))
    return None


def _arranged(emissions: Iterable[Emission], rule: Rule) -> Iterable[Emission]:
    return emissions if rule.ordered else sorted(emissions, key=lambda emission: (emission.key, emission.value or ""))


def _emission_difference(expected: Iterable[Emission], got: Iterable[Emission]) -> Difference | None:
    """The first missing emission, and the first additional one."""
    due, came = Counter(expected), Counter(got)
    missing, additional = due - came, came - due
    if not missing and not additional:
        return None
    return Difference("all emissions", _shown(next(iter(missing), None)), _shown(next(iter(additional), None)))


def _row_difference(where: str, expected: Rows, got: Rows) -> Difference | None:
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

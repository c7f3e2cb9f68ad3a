"""Aggregates of a stream by its keys, without Spark, compared with recordings of Kafka Streams."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from kaspr_delta.engine.aggregation.fold_groups import AggregatedRow, Change, FoldGroups
from kaspr_delta.serde.instants import EPOCH
from tests.oracle.case import Case, Emission, Event, load, text
from tests.oracle.compare import Outcome, difference_per_event, final_difference
from tests.oracle.families import family_of
from tests.unit.engine.aggregation.test_fold_groups import at, fold, groups

RECORDED = Path(__file__).parents[3] / "oracle" / "visible"
TYPES = ("count", "sum", "reduce-max")
CASES = [case for name in TYPES for file in sorted(RECORDED.glob(f"*-aggregate-{name}.json")) for case in load(file)]
assert {case.type for case in CASES} == set(TYPES), "recordings are missing"

recorded = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.type}-{case.name}")


def folding(case: Case) -> FoldGroups:
    field = case.params.get("field")
    if case.type == "count":
        return groups("count")
    if case.type == "sum":
        adder = f"def add(total, value): return total + value.get({field!r}, 0)"
        return groups("aggregate", initializer="def zero(): return 0", adder=adder)
    return groups(
        "reduce", adder=f"def f(old, new): return new if new.get({field!r}, 0) > old.get({field!r}, 0) else old"
    )


def run(case: Case, held: dict[str, AggregatedRow], events: Sequence[Event]) -> list[Emission]:
    """The rows whose value a batch changes; ``held`` is the table, which is updated."""
    changes = [
        Change(of.key or "", None, "before", of.value, of.timestamp, None, None, None, None) for of in held.values()
    ]
    changes += [
        Change(text(event.key), None, "add", text(event.value), at(event.ts), None, None, None, last=False)
        for event in events
        if event.key is not None and event.value is not None
    ]
    emitted = []
    # In each group the held row is first, then the records in their order: the sort is stable.
    for row in fold(folding(case), *sorted(changes, key=lambda change: change.grp)):
        assert (row.kind, row.timestamp is None) == ("write", False)
        key, before = str(row.key), held.get(str(row.key))
        held[key] = row  # also if only its time has changed
        if (before.value if before else None) != row.value:
            emitted.append(Emission(key, shown(case, row), milliseconds(row)))
    return emitted


def shown(case: Case, row: AggregatedRow) -> str:
    """The value of a row in the format of the recording."""
    value = json.loads(row.value or "null")
    return text(value if case.type == "reduce-max" else {case.type: value})


def milliseconds(row: AggregatedRow) -> int:
    return ((row.timestamp or EPOCH) - EPOCH) // timedelta(milliseconds=1)


def outcome(case: Case, batches: Sequence[Sequence[Event]]) -> Outcome:
    held: dict[str, AggregatedRow] = {}
    emitted = [run(case, held, events) for events in batches]
    return Outcome(emitted, {key: shown(case, row) for key, row in held.items()})


@recorded
def test_one_record_per_batch_gives_the_results_of_kafka_streams(case: Case) -> None:
    difference = difference_per_event(case, outcome(case, [[event] for event in case.events]), family_of(case).rule)
    assert difference is None, str(difference)


@recorded
def test_all_records_in_one_batch_give_the_final_rows_of_kafka_streams(case: Case) -> None:
    difference = final_difference(case, outcome(case, [case.events]), family_of(case).rule)
    assert difference is None, str(difference)

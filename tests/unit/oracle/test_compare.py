from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.case import Case, Emission, Event, Expected, Rows, text
from tests.oracle.compare import (
    TABLE,
    Difference,
    Outcome,
    Rule,
    difference_per_event,
    final_difference,
    without_superfluous,
)

A, B = {"left": {"fk": "A"}, "right": {"w": 1}}, {"left": {"fk": "B"}, "right": None}
K_A, K_B, K_NONE = f'"k" at 10 {text(A)}', f'"k" at 10 {text(B)}', '"k" at 10 tombstone'
STREAM = Rule(stream=True, times="always")
UNORDERED = Rule(ordered=False)


def emission(key: str, value: Any, ts: int = 10) -> Emission:
    return Emission(text(key), None if value is None else text(value), ts)


def rows(**values: Any) -> Rows:
    return {text(key): text(value) for key, value in values.items()}


def recorded(*emitted: list[Emission], final: Rows, deletes: tuple[int, ...] = ()) -> Case:
    """A case with one event for each list of emissions. The events numbered in ``deletes`` are deletions."""
    events = tuple(
        Event("left", "k", None if number in deletes else {}, number * 10) for number in range(1, len(emitted) + 1)
    )
    expected = Expected(tuple(tuple(emissions) for emissions in emitted), final)
    return Case("a case", "fk-table-table", "inner", {"fk_field": "fk"}, (), events, expected)


ONE_ROW = recorded([emission("k", A)], final=rows(k=A))
WAKES_TWO = recorded([emission("k1", A), emission("k10", A)], final=rows(k1=A, k10=A))
TWICE = recorded([emission("k", A)], [emission("k", A, ts=20)], final={})


@pytest.mark.parametrize(
    ("emitted", "difference"),
    [
        ([[emission("k", A, ts=11)]], Difference("event 1", K_A, f'"k" at 11 {text(A)}')),
        ([[emission("k", None)]], Difference("event 1", K_A, K_NONE)),
        ([[emission("k", A), emission("k", B)]], Difference("event 1", "nothing", K_B)),
        ([], Difference("event 1", K_A, "nothing")),
        ([[], [emission("k", A)]], Difference("event 1", K_A, "nothing")),
        ([[emission("k", A)], [emission("k", B)]], Difference("after the last event", "nothing", K_B)),
        ([[emission("k", A)]], None),
    ],
)
def test_any_change_of_an_events_emissions_is_a_difference(
    emitted: list[list[Emission]], difference: Difference | None
) -> None:
    assert difference_per_event(ONE_ROW, Outcome(emitted, rows(k=A))) == difference


@pytest.mark.parametrize(("rule", "counts"), [(TABLE, True), (STREAM, True), (UNORDERED, False)])
def test_the_order_of_an_events_emissions_counts_unless_there_is_none(rule: Rule, counts: bool) -> None:
    turned = Outcome([[emission("k10", A), emission("k1", A)]], rows(k1=A, k10=A))
    assert (difference_per_event(WAKES_TWO, turned, rule) is not None) == counts
    assert final_difference(WAKES_TWO, turned, rule) is None
    one_twice = Outcome([[emission("k10", A), emission("k10", A)]], rows(k1=A, k10=A))
    assert difference_per_event(WAKES_TWO, one_twice, rule) is not None


def test_the_comparison_at_the_end_ignores_earlier_emissions_and_times() -> None:
    case = recorded([emission("k", A)], [emission("k", B)], final=rows(k=B))
    assert final_difference(case, Outcome([[], [emission("k", B, ts=99)]], rows(k=B))) is None


def test_repetitions_and_tombstones_of_absent_keys_are_superfluous() -> None:
    emitted = [
        [emission("k", None), emission("j", A)],
        [emission("j", A, ts=20), emission("k", A)],
        [emission("j", B), emission("k", None)],
        [emission("k", None, ts=30), emission("j", A)],
    ]
    needed = [[emission("j", A)], [emission("k", A)], [emission("j", B), emission("k", None)], [emission("j", A)]]
    assert without_superfluous(emitted) == needed
    assert difference_per_event(recorded(*emitted, final=rows(j=A)), Outcome(needed, rows(j=A))) is None


@pytest.mark.parametrize(
    ("rule", "deletes", "compared"), [(TABLE, (2, 3), False), (TABLE, (3,), True), (Rule(times="always"), (2, 3), True)]
)
def test_timestamps_of_emissions_that_a_deletion_causes_are_compared_only_with_times_always(
    rule: Rule, deletes: tuple[int, ...], compared: bool
) -> None:
    case = recorded([emission("k", A)], [emission("k", None)], [emission("k", B)], final=rows(k=B), deletes=deletes)
    outcome = Outcome([[emission("k", A)], [emission("k", None, ts=99)], [emission("k", B, ts=99)]], rows(k=B))
    assert (difference_per_event(case, outcome, rule) is not None) == compared


@pytest.mark.parametrize(
    ("emitted", "expected", "got"),
    [
        ([emission("k", A)], f'"k" at 20 {text(A)}', "nothing"),
        ([emission("k", A), emission("k", A, ts=20), emission("k", A)], "nothing", K_A),
    ],
)
def test_all_emissions_of_a_stream_are_counted(emitted: list[Emission], expected: str, got: str) -> None:
    assert final_difference(TWICE, Outcome([emitted], {}), STREAM) == Difference("all emissions", expected, got)
    turned = [[], [emission("k", A, ts=20), emission("k", A)]]
    assert final_difference(TWICE, Outcome(turned, {}), STREAM) is None


def test_the_greatest_time_of_a_key_is_compared_until_a_deletion_took_part_in_it() -> None:
    rule = Rule(ordered=False, times="until a deletion")
    # The second event deletes a row of group k only. Its emission counts, although it repeats k's value.
    emitted = [emission("k", A), emission("j", A)], [emission("k", A, ts=20)], [emission("k", B), emission("j", B)]
    case = recorded(*emitted, final=rows(k=B, j=B), deletes=(2,))

    def difference(k: int, j: int) -> Difference | None:
        last = [emission("k", B, ts=k), emission("j", B, ts=j)]
        return difference_per_event(case, Outcome([emitted[0], [], last], rows(k=B, j=B)), rule)

    assert difference(k=99, j=10) is None
    assert difference(k=10, j=99) == Difference("event 3", f'"j" at 10 {text(B)}', f'"j" at 99 {text(B)}')


def test_a_row_that_came_and_went_inside_a_batch_may_be_absent() -> None:
    case = recorded([emission("k", A)], [emission("k", B)], final=rows(k=B))
    rule = Rule(optional_keys=lambda case: frozenset(case.expected.final or ()))
    never = Outcome([[], []], rows())
    assert final_difference(case, never, rule) is None
    assert final_difference(case, never) is not None
    assert difference_per_event(case, never, rule) is not None
    seen = Outcome([[emission("k", A)], [emission("k", B)]], rows())
    assert final_difference(case, seen, rule) == Difference('final channel, key "k"', "nothing", text(B))
    assert final_difference(case, Outcome(seen.emitted, rows(k=A)), rule) is not None


def test_a_difference_is_shown_in_one_short_line() -> None:
    line = str(Difference("event 3", "x" * 1000, "nothing"))
    assert line.startswith("event 3: expected xxx")
    assert line.endswith("…, got nothing")
    assert len(line) < 220

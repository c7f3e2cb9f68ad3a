from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.case import Case, Emission, Event, Expected, Rows, text
from tests.oracle.compare import Difference, Outcome, Rule, at_the_end, event_by_event, fold, without_superfluous

A, B = {"left": {"fk": "A"}, "right": {"w": 1}}, {"left": {"fk": "B"}, "right": None}


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


def test_what_was_recorded_passes_in_both_modes() -> None:
    outcome = Outcome([[emission("k1", A), emission("k10", A)]], rows(k10=A, k1=A))
    assert event_by_event(WAKES_TWO, outcome) is None
    assert at_the_end(WAKES_TWO, outcome) is None


@pytest.mark.parametrize(
    ("emitted", "difference"),
    [
        pytest.param(
            [emission("k", B)],
            Difference("event 1", f'"k" at 10 {text(A)}', f'"k" at 10 {text(B)}'),
            id="another value",
        ),
        pytest.param(
            [emission("j", A)],
            Difference("event 1", f'"k" at 10 {text(A)}', f'"j" at 10 {text(A)}'),
            id="another key",
        ),
        pytest.param([], Difference("event 1", f'"k" at 10 {text(A)}', "nothing"), id="a missing emission"),
        pytest.param(
            [emission("k", A), emission("k", B)],
            Difference("event 1", "nothing", f'"k" at 10 {text(B)}'),
            id="an additional emission",
        ),
        pytest.param(
            [emission("k", A), emission("k", A)],
            Difference("event 1", "nothing", f'"k" at 10 {text(A)}'),
            id="a repetition",
        ),
        pytest.param(
            [emission("k", A), emission("never", None)],
            Difference("event 1", "nothing", '"never" at 10 tombstone'),
            id="a tombstone of nothing",
        ),
        pytest.param(
            [emission("k", None)],
            Difference("event 1", f'"k" at 10 {text(A)}', '"k" at 10 tombstone'),
            id="a tombstone for a value",
        ),
        pytest.param(
            [emission("k", A, ts=11)],
            Difference("event 1", f'"k" at 10 {text(A)}', f'"k" at 11 {text(A)}'),
            id="another timestamp",
        ),
    ],
)
def test_an_event_that_emits_something_else_is_a_difference(emitted: list[Emission], difference: Difference) -> None:
    assert event_by_event(ONE_ROW, Outcome([emitted], rows(k=A))) == difference


def test_the_order_of_an_events_emissions_counts() -> None:
    outcome = Outcome([[emission("k10", A), emission("k1", A)]], rows(k1=A, k10=A))
    assert event_by_event(WAKES_TWO, outcome) == Difference(
        "event 1", f'"k1" at 10 {text(A)}', f'"k10" at 10 {text(A)}'
    )


def test_an_emission_belongs_to_its_event() -> None:
    case = recorded([emission("k", A)], [], final=rows(k=A))
    late = event_by_event(case, Outcome([[], [emission("k", A)]], rows(k=A)))
    assert late == Difference("event 1", f'"k" at 10 {text(A)}', "nothing")


def test_nothing_may_come_after_the_last_event() -> None:
    after = event_by_event(ONE_ROW, Outcome([[emission("k", A)], [emission("k", B)]], rows(k=A)))
    assert after == Difference("after the last event", "nothing", f'"k" at 10 {text(B)}')


def test_events_that_never_ran_are_missed() -> None:
    assert event_by_event(ONE_ROW, Outcome([], rows(k=A))) is not None


@pytest.mark.parametrize("compare", [event_by_event, at_the_end])
@pytest.mark.parametrize(
    ("result", "expected", "got"),
    [(rows(k=B), text(A), text(B)), (rows(), text(A), "nothing"), (rows(k=A, other=B), "nothing", text(B))],
)
def test_another_result_table_is_a_difference(compare: Any, result: Rows, expected: str, got: str) -> None:
    difference = compare(ONE_ROW, Outcome([[emission("k", A)]], result))
    assert difference.where.startswith("final result table, key ")
    assert (difference.expected, difference.got) == (expected, got)


def test_a_channel_that_ends_otherwise_is_a_difference() -> None:
    assert at_the_end(ONE_ROW, Outcome([[]], rows(k=A))) == Difference('final channel, key "k"', text(A), "nothing")
    emitted = [[emission("k", A)], [emission("k", None)]]
    assert at_the_end(ONE_ROW, Outcome(emitted, rows(k=A))) == Difference('final channel, key "k"', text(A), "nothing")


def test_the_end_alone_does_not_ask_how_it_came_about() -> None:
    case = recorded([emission("k", A)], [emission("k", B)], final=rows(k=B))
    assert at_the_end(case, Outcome([[], [emission("k", B, ts=99)]], rows(k=B))) is None


def test_repetitions_and_tombstones_of_nothing_are_superfluous() -> None:
    emitted = [
        [emission("k", None), emission("j", A)],
        [emission("j", A, ts=20), emission("k", A)],
        [emission("j", B), emission("k", None)],
        [emission("k", None, ts=30), emission("j", A)],
    ]
    assert without_superfluous(emitted) == [
        [emission("j", A)],
        [emission("k", A)],
        [emission("j", B), emission("k", None)],
        [emission("j", A)],
    ]


def test_what_is_superfluous_need_not_be_emitted() -> None:
    case = recorded([emission("k", None)], [emission("k", A)], [emission("k", A, ts=20)], final=rows(k=A))
    assert event_by_event(case, Outcome([[], [emission("k", A)], []], rows(k=A))) is None


def test_timestamps_of_what_a_deletion_causes_are_free() -> None:
    case = recorded([emission("k", A)], [emission("k", None)], [emission("k", B)], final=rows(k=B), deletes=(2, 3))
    outcome = Outcome([[emission("k", A)], [emission("k", None, ts=99)], [emission("k", B, ts=99)]], rows(k=B))
    assert event_by_event(case, outcome) is None


def test_the_timestamp_of_a_tombstone_that_a_value_causes_is_compared() -> None:
    case = recorded([emission("k", A)], [emission("k", None)], final=rows())
    outcome = Outcome([[emission("k", A)], [emission("k", None, ts=99)]], rows())
    assert event_by_event(case, outcome) is not None


STREAM = Rule(stream=True, times="always")
TWICE = recorded([emission("k", A)], [emission("k", A, ts=20)], final={})


def test_of_a_stream_a_repetition_must_come() -> None:
    both = [[emission("k", A)], [emission("k", A, ts=20)]]
    assert event_by_event(TWICE, Outcome(both, {}), STREAM) is None
    assert at_the_end(TWICE, Outcome([[], both[1] + both[0]], {}), STREAM) is None
    once = Outcome([[emission("k", A)], []], {})
    assert event_by_event(TWICE, once, STREAM) == Difference("event 2", f'"k" at 20 {text(A)}', "nothing")
    assert at_the_end(TWICE, once, STREAM) == Difference("all emissions", f'"k" at 20 {text(A)}', "nothing")


@pytest.mark.parametrize(
    ("emitted", "expected", "got"),
    [
        ([emission("k", A), emission("k", A, ts=20), emission("k", A)], "nothing", f'"k" at 10 {text(A)}'),
        ([emission("k", A), emission("k", A, ts=21)], f'"k" at 20 {text(A)}', f'"k" at 21 {text(A)}'),
        ([emission("k", A), emission("j", A, ts=20)], f'"k" at 20 {text(A)}', f'"j" at 20 {text(A)}'),
        ([emission("k", A), emission("k", B, ts=20)], f'"k" at 20 {text(A)}', f'"k" at 20 {text(B)}'),
    ],
)
def test_all_emissions_of_a_stream_are_counted(emitted: list[Emission], expected: str, got: str) -> None:
    assert at_the_end(TWICE, Outcome([emitted], {}), STREAM) == Difference("all emissions", expected, got)


def test_the_order_of_a_streams_emissions_counts_for_an_event() -> None:
    turned = Outcome([[emission("k10", A), emission("k1", A)]], {})
    assert event_by_event(WAKES_TWO, turned, STREAM) is not None
    assert at_the_end(WAKES_TWO, turned, STREAM) is None


def test_a_record_of_a_stream_has_a_time_also_without_a_value() -> None:
    case = recorded([emission("k", A)], final=rows(k=A), deletes=(1,))
    outcome = Outcome([[emission("k", A, ts=99)]], rows(k=A))
    assert event_by_event(case, outcome) is None
    assert event_by_event(case, outcome, Rule(times="always")) is not None


def test_emissions_without_an_order_are_compared_as_a_set() -> None:
    rule = Rule(ordered=False)
    turned = Outcome([[emission("k10", A), emission("k1", A)]], rows(k1=A, k10=A))
    assert event_by_event(WAKES_TWO, turned, rule) is None
    one_twice = Outcome([[emission("k10", A), emission("k10", A)]], rows(k1=A, k10=A))
    assert event_by_event(WAKES_TWO, one_twice, rule) is not None


def test_the_greatest_time_of_a_key_is_compared_until_a_deletion_took_part_in_it() -> None:
    rule = Rule(ordered=False, times="until a deletion")
    # The second event deletes a row of group k only. Its emission counts, although it repeats k's value.
    emitted = [emission("k", A), emission("j", A)], [emission("k", A, ts=20)], [emission("k", B), emission("j", B)]
    case = recorded(*emitted, final=rows(k=B, j=B), deletes=(2,))

    def difference(k: int, j: int) -> Difference | None:
        last = [emission("k", B, ts=k), emission("j", B, ts=j)]
        return event_by_event(case, Outcome([emitted[0], [], last], rows(k=B, j=B)), rule)

    assert difference(k=99, j=10) is None
    assert difference(k=10, j=99) == Difference("event 3", f'"j" at 10 {text(B)}', f'"j" at 99 {text(B)}')


def test_a_row_that_came_and_went_inside_a_batch_may_be_absent() -> None:
    case = recorded([emission("k", A)], [emission("k", B)], final=rows(k=B))
    rule = Rule(fleeting=lambda case: frozenset(case.expected.final or ()))
    never = Outcome([[], []], rows())
    assert at_the_end(case, never, rule) is None
    assert at_the_end(case, never) is not None
    assert event_by_event(case, never, rule) is not None
    seen = Outcome([[emission("k", A)], [emission("k", B)]], rows())
    assert at_the_end(case, seen, rule) == Difference('final channel, key "k"', "nothing", text(B))
    assert at_the_end(case, Outcome(seen.emitted, rows(k=A)), rule) is not None


def test_numbers_that_python_takes_for_one_are_different_values() -> None:
    assert len({text(value) for value in (1, 1.0, True, "1")}) == 4


def test_a_fold_keeps_the_last_value_and_drops_tombstones() -> None:
    folded = fold([emission("k", A), emission("j", A), emission("k", B), emission("j", None)])
    assert folded == rows(k=B)


def test_a_difference_is_said_in_one_short_line() -> None:
    line = str(Difference("event 3", "x" * 1000, "nothing"))
    assert line.startswith("event 3: expected xxx")
    assert line.endswith("…, got nothing")
    assert len(line) < 220

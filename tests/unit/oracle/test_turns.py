from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.case import Case, Event, Expected, Side
from tests.oracle.turns import Turn, cut_anywhere, cut_between_sides, merge_schedules, one_by_one


def case(sides: Sequence[Side]) -> Case:
    events = tuple(Event(side, "k", place, place) for place, side in enumerate(sides))
    return Case("a case", "table-table", "inner", {}, (), events, Expected(((),) * len(events)))


SIDES: st.SearchStrategy[list[Side]] = st.lists(st.sampled_from(["left", "right"]), min_size=1, max_size=15)
CASES = st.dictionaries(st.integers(0, 20), SIDES.map(case), max_size=8)


def all_schedules(cases: Mapping[int, Case], seed: int) -> list[list[Turn]]:
    """One by one, cut anywhere, cut between sides, and merged."""
    cut, between_sides = (how(cases, random.Random(seed)) for how in (cut_anywhere, cut_between_sides))  # noqa: S311
    return [one_by_one(cases), cut, between_sides, merge_schedules(cut, [])]


@given(cases=CASES, seed=st.integers())
def test_every_event_is_put_in_once_and_in_its_order(cases: Mapping[int, Case], seed: int) -> None:
    for turns in all_schedules(cases, seed):
        assert all(turn and all(turn.values()) for turn in turns)
        for number, one in cases.items():
            assert [event for turn in turns for event in turn.get(number, ())] == list(one.events)


@given(cases=CASES)
def test_one_by_one_the_turn_of_an_event_is_its_index(cases: Mapping[int, Case]) -> None:
    for place, turn in enumerate(one_by_one(cases)):
        assert all(list(events) == [cases[number].events[place]] for number, events in turn.items())


@given(cases=CASES, seed=st.integers())
def test_cut_between_sides_a_turn_has_events_of_one_side_per_case(cases: Mapping[int, Case], seed: int) -> None:
    _, _, between_sides, _ = all_schedules(cases, seed)
    for turn in between_sides:
        assert all(len({event.side for event in events}) == 1 for events in turn.values())


def test_a_cut_gives_several_turns_and_some_have_several_events() -> None:
    cases = {number: case(["left"] * 12) for number in range(4)}
    _, *cut = all_schedules(cases, 0)
    for turns in cut:
        assert 1 < len(turns) < 12
        assert any(len(events) > 1 for turn in turns for events in turn.values())


def test_the_same_seed_gives_the_same_turns() -> None:
    cases = {number: case(["left", "right"] * 5) for number in range(4)}
    assert all_schedules(cases, 7) == all_schedules(cases, 7)


def test_schedules_of_different_cases_run_at_the_same_time() -> None:
    first, second = one_by_one({0: case(["left"])}), one_by_one({1: case(["left", "right"])})
    assert [set(turn) for turn in merge_schedules(first, second)] == [{0, 1}, {1}]

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


def test_a_cut_gives_several_turns_and_some_have_several_events() -> None:
    cases = {number: case(["left"] * 12) for number in range(4)}
    _, *cut = all_schedules(cases, 0)
    for turns in cut:
        assert 1 < len(turns) < 12
        assert any(len(events) > 1 for turn in turns for events in turn.values())

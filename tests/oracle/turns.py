"""The input of a run, as a *turn*: the events that are written before it. Pure: no Spark, no files.

Cases run side by side: a turn has the next events of each case that has any left.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from tests.oracle.case import Case, Event

Turn = Mapping[int, Sequence[Event]]
"""The events of a turn, by number of their case."""

# Cuts are the same for all cases of a run: a case that begins later is cut between other events.
_MOST_DELAY = 5
_CHANCE_OF_A_CUT = 0.4


def one_by_one(cases: Mapping[int, Case]) -> list[Turn]:
    """A turn for every event."""
    return _side_by_side({number: [[event] for event in case.events] for number, case in cases.items()})


def cut_anywhere(cases: Mapping[int, Case], dice: random.Random) -> list[Turn]:
    """Turns that end at random, for all cases at once."""
    length = max((len(case.events) for case in cases.values()), default=0)
    most_delay = min(_MOST_DELAY, length // 2)
    delays = {number: dice.randint(0, most_delay) for number in cases}
    last = length + most_delay - 1
    turns: list[Turn] = []
    turn: dict[int, list[Event]] = {}
    for step in range(last + 1):
        for number, case in cases.items():
            place = step - delays[number]
            if 0 <= place < len(case.events):
                turn.setdefault(number, []).append(case.events[place])
        cut = step == last or dice.random() < _CHANCE_OF_A_CUT
        if cut and turn:
            turns.append(turn)
            turn = {}
    return turns


def cut_between_sides(cases: Mapping[int, Case], dice: random.Random) -> list[Turn]:
    """Turns in which a case has events of one side only, because a batch does not keep the order of two sides."""
    return _side_by_side({number: list(_one_sided_parts(case.events, dice)) for number, case in cases.items()})


def merge_schedules(*schedules: Sequence[Turn]) -> list[Turn]:
    """The turns of several schedules, which have different cases, merged one by one."""
    turns = zip_longest(*schedules, fillvalue={})
    return [{number: events for turn in at_once for number, events in turn.items()} for at_once in turns]


def _one_sided_parts(events: Sequence[Event], dice: random.Random) -> Iterator[list[Event]]:
    part: list[Event] = []
    for event in events:
        if part and (part[-1].side != event.side or dice.random() < _CHANCE_OF_A_CUT):
            yield part
            part = []
        part.append(event)
    if part:
        yield part


def _side_by_side(parts: Mapping[int, Sequence[Sequence[Event]]]) -> list[Turn]:
    return merge_schedules(*([{number: part} for part in of_case] for number, of_case in parts.items()))

"""The two ways in which cases are run and compared; a case passes when it passes in both."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.oracle.case import Case
from tests.oracle.compare import Difference, Outcome, difference_per_event, final_difference
from tests.oracle.families import family_of
from tests.oracle.laboratory import Laboratory
from tests.oracle.progress import steps
from tests.oracle.turns import Turn, cut_anywhere, cut_between_sides, merge_schedules, one_by_one


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


def one_event_per_batch(cases: Sequence[Case], folder: Path, dice: random.Random) -> list[Outcome]:  # noqa: ARG001
    """Run the resources until quiet after each event."""
    return _outcomes(cases, folder, one_by_one(dict(enumerate(cases))), "one event per batch")


def random_batch_cuts(cases: Sequence[Case], folder: Path, dice: random.Random) -> list[Outcome]:
    """Run the resources only at random points between the events."""
    in_order = {number: case for number, case in enumerate(cases) if family_of(case).sides_in_order}
    others = {number: case for number, case in enumerate(cases) if number not in in_order}
    turns = merge_schedules(cut_anywhere(others, dice), cut_between_sides(in_order, dice))
    return _outcomes(cases, folder, turns, "random batch cuts")


def _difference_per_event(case: Case, outcome: Outcome) -> Difference | None:
    return difference_per_event(case, outcome, family_of(case).rule)


def _final_difference(case: Case, outcome: Outcome) -> Difference | None:
    return final_difference(case, outcome, family_of(case).rule)


Mode = tuple[
    Callable[[Sequence[Case], Path, random.Random], list[Outcome]], Callable[[Case, Outcome], Difference | None]
]
MODES: Mapping[str, Mode] = {
    "one event per batch": (one_event_per_batch, _difference_per_event),
    "random batch cuts": (random_batch_cuts, _final_difference),
}


def _outcomes(cases: Sequence[Case], folder: Path, turns: Sequence[Turn], mode: str) -> list[Outcome]:
    laboratory = Laboratory(cases, folder)
    shapes = ", ".join(dict.fromkeys(case.shape for case in cases))
    for turn in steps(len(turns), f"{len(cases)} cases of {shapes}, {mode}"):
        laboratory.run_turn(turns[turn])
    return laboratory.outcomes()

"""The two ways in which cases are run and compared; a case passes when it passes in both."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from kaspr_delta.cli.progress import console
from kaspr_delta.storage.limits import Limits
from tests.oracle.case import Case
from tests.oracle.compare import Difference, Outcome, Rule, difference_per_event, final_difference
from tests.oracle.families import family_of
from tests.oracle.laboratory import Laboratory
from tests.oracle.turns import Turn, cut_anywhere, cut_between_sides, merge_schedules, one_by_one


def _one_event_per_batch(cases: Sequence[Case], _: random.Random) -> list[Turn]:
    """The resources run until quiet after each event."""
    return one_by_one(dict(enumerate(cases)))


def _random_batch_cuts(cases: Sequence[Case], dice: random.Random) -> list[Turn]:
    """The resources run only at random points between the events."""
    in_order = {number: case for number, case in enumerate(cases) if family_of(case).sides_in_order}
    others = {number: case for number, case in enumerate(cases) if number not in in_order}
    return merge_schedules(cut_anywhere(others, dice), cut_between_sides(in_order, dice))


Turns = Callable[[Sequence[Case], random.Random], list[Turn]]
Compare = Callable[[Case, Outcome, Rule], Difference | None]

MODES: Mapping[str, tuple[Turns, Compare]] = {
    "one event per batch": (_one_event_per_batch, difference_per_event),
    "random batch cuts": (_random_batch_cuts, final_difference),
}


def differences(
    cases: Sequence[Case],
    folder: Path,
    seed: int,
    modes: Iterable[str] = tuple(MODES),
    *,
    on_spark: bool = True,
    limits: Limits | None = None,
) -> list[Difference | None]:
    """Run the cases in modes, each on a warehouse of its own; case by case the first difference, or None.

    ``on_spark`` and ``limits`` are as in ``Laboratory``.
    """
    found: list[Difference | None] = [None] * len(cases)
    for mode in modes:
        turns, compare = MODES[mode]
        dice = random.Random(seed)  # noqa: S311  no secret
        laboratory = Laboratory(cases, folder / mode.replace(" ", "-"), on_spark=on_spark, limits=limits)
        outcomes = _outcomes(laboratory, turns(cases, dice), mode)
        for number, (case, outcome) in enumerate(zip(cases, outcomes, strict=True)):
            difference = compare(case, outcome, family_of(case).rule)
            if difference is not None and found[number] is None:
                found[number] = Difference(f"{mode}, {difference.where}", difference.expected, difference.got)
    return found


def _outcomes(laboratory: Laboratory, turns: Sequence[Turn], mode: str) -> list[Outcome]:
    """The outcomes after all turns. On a terminal the progress is shown; the last line has the seconds."""
    cases = laboratory.cases
    what = f"{len(cases)} cases of {', '.join(dict.fromkeys(case.shape for case in cases))}, {mode}"
    screen, started = console(), time.monotonic()
    with screen.status(what) as status:
        for number, turn in enumerate(turns, start=1):
            status.update(f"{what}: step {number} of {len(turns)} …")
            laboratory.run_turn(turn)
    screen.print(f"{what}: {len(turns)} steps, {time.monotonic() - started:.1f} s", style="dim")
    return laboratory.outcomes()

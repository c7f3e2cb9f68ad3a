"""Shortens a history that fails, as long as it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tests.chaos.history import History
from tests.chaos.steps import Step


def shrunk(history: History, still_fails: Callable[[History], bool], seconds: float) -> History:
    """The shortest history found in so many seconds. Shapes are left out first, then half the steps, then single steps.

    The last step, in which the history fails, is kept.
    """
    deadline = time.monotonic() + seconds
    found = True
    while found:
        found = False
        for shorter in _shorter(history):
            if time.monotonic() > deadline:
                return history
            if still_fails(shorter):
                history, found = shorter, True
                break
    return history


def _shorter(history: History) -> Iterator[History]:
    """Histories without one shape, then without a part of the steps, the largest parts first."""
    for shape in history.recipe.shapes:
        recipe = history.recipe.without([shape.name])
        if recipe.shapes:
            yield History(history.seed, recipe, history.steps)
    *steps, last = history.steps
    size = len(steps)
    while size > 1:
        size = (size + 1) // 2
        for start in range(0, len(steps), size):
            yield history.of(_cut(steps, start, size, last))
    if len(steps) == 1:
        yield history.of((last,))


def _cut(steps: list[Step], start: int, size: int, last: Step) -> tuple[Step, ...]:
    return (*steps[:start], *steps[start + size :], last)

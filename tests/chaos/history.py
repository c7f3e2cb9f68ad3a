"""A history: an application and its steps, drawn from a seed and stored as JSON lines."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.chaos.shapes.shape import Recipe
from tests.chaos.steps import Step, draw_step


@dataclass(frozen=True)
class History:
    """An application and its steps."""

    seed: int
    recipe: Recipe
    steps: tuple[Step, ...]

    @classmethod
    def draw(cls, seed: int, length: int = 40) -> History:
        """A random history, whose last step is a run that is judged."""
        dice = random.Random(seed)
        recipe = Recipe.draw(dice)
        steps = [draw_step(dice, recipe) for _ in range(length)]
        return cls(seed, recipe, (*steps, {"step": "stop_continuous_run"}, {"step": "run"}))

    def write(self, file: Path) -> None:
        """Write JSON lines: the seed with the application, then a line for each step."""
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [{"seed": self.seed, **self.recipe.write()}, *self.steps]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    @classmethod
    def read(cls, file: Path) -> History:
        """The history in a file. Raises KeyError and TypeError if the lines are not a history."""
        first, *steps = (json.loads(line) for line in file.read_text().splitlines())
        return cls(first["seed"], Recipe.read(first), tuple(steps))

    def shrunk(self, still_fails: Callable[[History], bool], seconds: float) -> History:
        """The shortest history found in so many seconds that still fails."""
        deadline = time.monotonic() + seconds
        found: History | None = self
        while found is not None:
            shortest = found
            found = next((one for one in shortest._shorter() if time.monotonic() < deadline and still_fails(one)), None)
        return shortest

    def _shorter(self) -> Iterator[History]:
        """Histories without one shape, then without a part of the steps, the largest parts first.

        The last step, in which the history fails, is kept.
        """
        for name in self.recipe.shapes:
            recipe = self.recipe.without([name])
            if recipe.shapes:
                yield replace(self, recipe=recipe)
        *steps, last = self.steps
        size = 2 * len(steps)
        while size > 1:
            size = (size + 1) // 2
            for start in range(0, len(steps), size):
                yield replace(self, steps=(*steps[:start], *steps[start + size :], last))

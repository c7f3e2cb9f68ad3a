"""A history: an application and its steps, drawn from a seed and stored as JSON lines."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from pathlib import Path

from tests.chaos.recipe import Recipe
from tests.chaos.steps import STEPS, Step, draw_step
from tests.chaos.steps.runs import Run, StopContinuousRun


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
        return cls(seed, recipe, (*(draw_step(dice, recipe) for _ in range(length)), StopContinuousRun(), Run()))

    def of(self, steps: tuple[Step, ...]) -> History:
        """This history with other steps."""
        return replace(self, steps=steps)

    def write(self, file: Path) -> None:
        """Write JSON lines: the seed with the application, then a line for each step."""
        lines = [{"seed": self.seed, **self.recipe.write()}, *(STEPS.write(step) for step in self.steps)]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    @classmethod
    def read(cls, file: Path) -> History:
        """The history in a file. Raises KeyError and TypeError if the lines are not a history."""
        first, *rest = (json.loads(line) for line in file.read_text().splitlines())
        return cls(first["seed"], Recipe.read(first), tuple(STEPS.read(line) for line in rest))

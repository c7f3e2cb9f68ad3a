"""What all steps have in common."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tests.chaos.known import LEFT_OUT
from tests.chaos.registry import Registry

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.chaos.recipe import Recipe
    from tests.chaos.sources import Source
    from tests.chaos.world import World


@dataclass(frozen=True)
class Step(ABC):
    """Something that somebody does. It fits every state, and does nothing where there is nothing to do.

    ``quiet``: the application is quiet afterwards, and can be judged. ``deadly``: the process may die of it.
    """

    weight: ClassVar[int] = 2
    quiet: ClassVar[bool] = False
    deadly: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        """A step for an application; None where it has nothing that the step is for."""

    @abstractmethod
    def do(self, world: World) -> str | None:
        """Do it; a remark for the story. Whatever this raises is a failure."""


@dataclass(frozen=True)
class OfSource(Step):
    """A step that concerns one source."""

    source: str

    def do(self, world: World) -> str | None:
        """Do it, unless a shorter history has the source no more."""
        source = world.recipe.source(self.source)
        return "no such source" if source is None else self.change(world, source)

    @abstractmethod
    def change(self, world: World, source: Source) -> str | None:
        """Do it to the source."""


STEPS: Registry[Step] = Registry("step", {})


def draw_step(dice: random.Random, recipe: Recipe) -> Step:
    """Any step that fits, those of more weight more often."""
    classes = [one for name, one in STEPS.classes.items() if name not in LEFT_OUT]
    while True:
        (chosen,) = dice.choices(classes, [one.weight for one in classes])
        drawn = chosen.draw(dice, recipe)
        if drawn is not None:
            return drawn

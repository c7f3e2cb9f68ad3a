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

    ``deadly``: the process may die of it. A step after which the application can be judged says so: ``World.quiet``.
    """

    weight: ClassVar[int] = 2
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


@dataclass(frozen=True)
class OfShape(Step):
    """A step that concerns one shape."""

    name: str

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        return cls(dice.choice(recipe.shapes).name)

    def do(self, world: World) -> str | None:
        """Do it, unless a shorter history has the shape no more."""
        return self.act(world) if self.name in world.recipe.inputs.shapes else "no such shape"

    @abstractmethod
    def act(self, world: World) -> str | None:
        """Do it."""


@dataclass(frozen=True)
class Plain(Step):
    """A step that needs to know nothing."""

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        return cls()


STEPS: Registry[Step] = Registry("step", {})


def draw_step(dice: random.Random, recipe: Recipe) -> Step:
    """Any step that fits, those of more weight more often."""
    classes = [one for name, one in STEPS.classes.items() if name not in LEFT_OUT]
    while True:
        (chosen,) = dice.choices(classes, [one.weight for one in classes])
        drawn = chosen.draw(dice, recipe)
        if drawn is not None:
            return drawn

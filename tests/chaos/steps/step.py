"""The base classes of the steps."""

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
    """An action. It can be done in every state, and does nothing if it does not apply.

    ``deadly``: it may kill the process. A step after which the application can be judged sets ``World.quiet``.
    """

    weight: ClassVar[int] = 2
    deadly: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        """A random step for an application; None if the application has nothing for it."""

    @abstractmethod
    def do(self, world: World) -> str | None:
        """Do the step. Returns a remark for the output. Any exception is a failure."""


@dataclass(frozen=True)
class SourceStep(Step):
    """A step on one source."""

    source: str

    def do(self, world: World) -> str | None:
        """Do the step, unless the source was left out of a shrunk history."""
        source = world.recipe.source(self.source)
        return "no such source" if source is None else self.change(world, source)

    @abstractmethod
    def change(self, world: World, source: Source) -> str | None:
        """Do the step on the source. Returns a remark."""


@dataclass(frozen=True)
class ShapeStep(Step):
    """A step on one shape."""

    name: str

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        return cls(dice.choice(recipe.shapes).name)

    def do(self, world: World) -> str | None:
        """Do the step, unless the shape was left out of a shrunk history."""
        return self.act(world) if self.name in world.recipe.inputs.shapes else "no such shape"

    @abstractmethod
    def act(self, world: World) -> str | None:
        """Do the step on the shape. Returns a remark."""


@dataclass(frozen=True)
class StepWithoutFields(Step):
    """A step without fields."""

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        return cls()


STEPS: Registry[Step] = Registry("step", {})


def draw_step(dice: random.Random, recipe: Recipe) -> Step:
    """A random step that fits, drawn by weight."""
    classes = [one for name, one in STEPS.classes.items() if name not in LEFT_OUT]
    while True:
        (chosen,) = dice.choices(classes, [one.weight for one in classes])
        drawn = chosen.draw(dice, recipe)
        if drawn is not None:
            return drawn

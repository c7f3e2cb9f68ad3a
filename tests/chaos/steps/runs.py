"""Runs of the application."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.steps.step import STEPS, Step

if TYPE_CHECKING:
    from tests.chaos.recipe import Recipe
    from tests.chaos.world import World


@STEPS.add
@dataclass(frozen=True)
class Run(Step):
    """Everything runs until quiet."""

    weight = 14
    quiet = True

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Run:
        return cls()

    def do(self, world: World) -> None:
        world.run()


@STEPS.add
@dataclass(frozen=True)
class RunOnly(Step):
    """One resource runs; the others stay behind."""

    name: str

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> RunOnly:
        return cls(dice.choice(recipe.shapes).name)

    def do(self, world: World) -> None:
        if self.name in world.recipe.inputs.shapes:
            world.run(self.name)


@STEPS.add
@dataclass(frozen=True)
class Rebuild(Step):
    """A resource makes its state anew."""

    name: str

    weight = 1

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Rebuild:
        return cls(dice.choice(recipe.shapes).name)

    def do(self, world: World) -> None:
        if self.name in world.recipe.inputs.shapes:
            world.rebuild(self.name)


@STEPS.add
@dataclass(frozen=True)
class Reopen(Step):
    """The application is opened anew, as by another command."""

    weight = 1

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Reopen:
        return cls()

    def do(self, world: World) -> None:
        world.open()

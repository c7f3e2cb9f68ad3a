"""Runs of the application."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.steps.step import STEPS, OfShape, Plain
from tests.chaos.wrong import WrongError

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.chaos.recipe import Recipe
    from tests.chaos.world import World

_PATIENCE = 300


@STEPS.add
@dataclass(frozen=True)
class Run(Plain):
    """Everything runs until quiet."""

    weight = 10

    def do(self, world: World) -> str | None:
        return world.run()


@STEPS.add
@dataclass(frozen=True)
class RunOnly(OfShape):
    """One resource runs; the others stay behind."""

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        some = [shape.name for shape in recipe.shapes if shape.runs]
        return cls(dice.choice(some)) if some else None

    def act(self, world: World) -> str | None:
        return world.run(self.name)


@STEPS.add
@dataclass(frozen=True)
class Rebuild(OfShape):
    """A resource makes its state anew."""

    weight = 1

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        some = [shape.name for shape in recipe.shapes if shape.can_rebuild]
        return cls(dice.choice(some)) if some else None

    def act(self, world: World) -> str | None:
        return world.rebuild(self.name)


@STEPS.add
@dataclass(frozen=True)
class Reopen(Plain):
    """The application is opened anew, as by another command."""

    weight = 1

    def do(self, world: World) -> None:
        world.open()


@STEPS.add
@dataclass(frozen=True)
class Follow(Plain):
    """Everything runs without end, beside the steps that come."""

    def do(self, world: World) -> None:
        world.follow()


@STEPS.add
@dataclass(frozen=True)
class Await(Plain):
    """Nobody writes until all has come through: by what runs without end, else by a run."""

    weight = 6

    def do(self, world: World) -> str | None:
        if not world.follows:
            return world.run()
        world.quiet = "soon"
        return None


@STEPS.add
@dataclass(frozen=True)
class StopFollowing(Plain):
    """What runs without end is stopped."""

    weight = 5

    def do(self, world: World) -> None:
        world.stop_following()


@STEPS.add
@dataclass(frozen=True)
class RunElsewhere(Plain):
    """Another process runs everything; it is refused, in a sentence, where this one does already."""

    weight = 1

    def do(self, world: World) -> str:
        world.open()
        command = [sys.executable, "-m", "kaspr_delta", "--warehouse", str(world.warehouse), "run"]
        done = subprocess.run(  # noqa: S603
            [*command, str(world.manifests)], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
        said = f"exit code {done.returncode}: {done.stdout}{done.stderr}"
        if "Traceback" in said or done.returncode != int(world.follows):
            raise WrongError(said)
        if world.follows and "already runs" not in said:
            raise WrongError(said)
        world.quiet = "no" if world.follows else "yes"
        return "refused" if world.follows else "done"

"""Runs of the application."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.steps.step import STEPS, ShapeStep, StepWithoutFields
from tests.chaos.wrong import WrongError

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.chaos.recipe import Recipe
    from tests.chaos.world import World

_PATIENCE = 300


@STEPS.add
@dataclass(frozen=True)
class Run(StepWithoutFields):
    """Everything runs until quiet."""

    weight = 10

    def do(self, world: World) -> str | None:
        return world.run()


@STEPS.add
@dataclass(frozen=True)
class RunOnly(ShapeStep):
    """One resource runs until quiet, the others do not run."""

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        some = [shape.name for shape in recipe.shapes if shape.runs]
        return cls(dice.choice(some)) if some else None

    def act(self, world: World) -> str | None:
        return world.run(self.name)


@STEPS.add
@dataclass(frozen=True)
class Rebuild(ShapeStep):
    """The state of a resource is rebuilt."""

    weight = 1

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self | None:
        some = [shape.name for shape in recipe.shapes if shape.can_rebuild]
        return cls(dice.choice(some)) if some else None

    def act(self, world: World) -> str | None:
        return world.rebuild(self.name)


@STEPS.add
@dataclass(frozen=True)
class Reopen(StepWithoutFields):
    """The application is opened again, as by another command."""

    weight = 1

    def do(self, world: World) -> None:
        world.open()


@STEPS.add
@dataclass(frozen=True)
class StartContinuousRun(StepWithoutFields):
    """A continuous run starts, and goes on beside the steps that follow."""

    def do(self, world: World) -> None:
        world.start_continuous_run()


@STEPS.add
@dataclass(frozen=True)
class WaitUntilQuiet(StepWithoutFields):
    """The judge waits until the continuous run has caught up; without one, everything runs until quiet."""

    weight = 6

    def do(self, world: World) -> str | None:
        if not world.runs_continuously:
            return world.run()
        world.quiet = "soon"
        return None


@STEPS.add
@dataclass(frozen=True)
class StopContinuousRun(StepWithoutFields):
    """The continuous run is stopped."""

    weight = 5

    def do(self, world: World) -> None:
        world.stop_continuous_run()


@STEPS.add
@dataclass(frozen=True)
class RunElsewhere(StepWithoutFields):
    """Another process runs everything. During a continuous run its run is refused, without a traceback."""

    weight = 1

    def do(self, world: World) -> str:
        world.open()
        command = [sys.executable, "-m", "kaspr_delta", "--warehouse", str(world.warehouse), "run"]
        done = subprocess.run(  # noqa: S603
            [*command, str(world.manifests)], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
        output = f"exit code {done.returncode}: {done.stdout}{done.stderr}"
        if "Traceback" in output or done.returncode != int(world.runs_continuously):
            raise WrongError(output)
        if world.runs_continuously and "already runs" not in output:
            raise WrongError(output)
        world.quiet = "no" if world.runs_continuously else "yes"
        return "refused" if world.runs_continuously else "done"

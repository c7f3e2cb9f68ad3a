"""Accidents around a process: unfinished commits, full disks, clocks that jump."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from kaspr_delta import KasprError
from tests.chaos.steps.step import STEPS, Step
from tests.small_disk import SmallDisk, is_small

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.chaos.recipe import Recipe
    from tests.chaos.world import World

_HOUR = 3_600


@STEPS.add
@dataclass(frozen=True)
class HalfCommit(Step):
    """Adds a data file and a temporary commit file that belong to no version: a writer died before its commit."""

    table: str

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self:
        return cls(dice.choice([*recipe.inputs.sources, *recipe.inputs.shapes]))

    def do(self, world: World) -> str:
        source = world.recipe.source(self.table)
        folder = world.warehouse / "chaos" / self.table if source is None else source.folder(world.warehouse)
        files = sorted(folder.glob("*.parquet"))
        if not files:
            return "it has no file"
        shutil.copy(files[0], folder / f"part-00000-{uuid4()}-c000.snappy.parquet")
        newest = max((folder / "_delta_log").glob("?" * 20 + ".json"))
        shutil.copy(newest, folder / "_delta_log" / f"_commit_{uuid4()}.json.tmp")
        return "done"


@STEPS.add
@dataclass(frozen=True)
class DiskFull(Step):
    """Everything runs on a nearly full disk, and may fail with a KasprError. The disk is freed afterwards."""

    kilobytes: int

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self:
        return cls(dice.choice([0, 8, 64, 512]))

    def do(self, world: World) -> str:
        if not is_small(world.warehouse):
            return "the disk is not a small one"
        world.stop_continuous_run()
        disk = SmallDisk(world.warehouse.parent)
        disk.fill_except_for(self.kilobytes)
        try:
            world.run()
        except KasprError as error:
            return str(error)
        finally:
            disk.free()
            world.quiet = "no"
        return "there was room"


@dataclass(frozen=True)
class _ClockJump(Step):
    """Moves the clock of the child and of the children after it; the clock goes on from the new time."""

    hours: int

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self:
        return cls(dice.choice([1, 24]))

    def move(self, world: World, seconds: float) -> None:
        ahead = world.clock.ahead + seconds
        world.clock.set(ahead)
        world.note("clock", ahead)


@STEPS.add
@dataclass(frozen=True)
class ClockForward(_ClockJump):
    """The clock jumps forward."""

    weight = 1

    def do(self, world: World) -> None:
        self.move(world, self.hours * _HOUR)


@STEPS.add
@dataclass(frozen=True)
class ClockBack(_ClockJump):
    """The clock jumps back."""

    weight = 1

    def do(self, world: World) -> None:
        self.move(world, -self.hours * _HOUR)

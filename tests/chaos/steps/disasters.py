"""What nobody wants: kills, half commits, clocks that are moved."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from kaspr_delta import KasprError, ResourceFailedError
from tests.chaos.small_disk import SMALL
from tests.chaos.steps.step import STEPS, Step
from tests.spark.dying import die, watched_writes

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.chaos.recipe import Recipe
    from tests.chaos.world import World

_HOUR = 3_600
# How long what runs without end is watched for a write that is its last.
_WATCHED = 5.0


@STEPS.add
@dataclass(frozen=True)
class KilledAtWrite(Step):
    """The process dies before or after one of the writes of a run; it lives where there are less."""

    write: int
    moment: Literal["before", "after"]

    deadly = True

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self:
        return cls(dice.randint(1, 4 * len(recipe.shapes)), dice.choice(["before", "after"]))

    def do(self, world: World) -> str:
        numbers = {"before": itertools.count(1), "after": itertools.count(1)}

        def watch(_: tuple[Any, ...], moment: str) -> None:
            if next(numbers[moment]) == self.write and moment == self.moment:
                die()

        with watched_writes(watch):
            if world.run() is not None:
                time.sleep(_WATCHED)
        return "there were less"


@STEPS.add
@dataclass(frozen=True)
class KilledSoon(Step):
    """The process dies at some moment of a run, alone or with its JVM and workers."""

    seconds: float
    alone: bool

    deadly = True

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self:
        return cls(round(dice.uniform(0.05, 6), 2), dice.random() < 0.5)

    def do(self, world: World) -> None:
        threading.Timer(self.seconds, die if self.alone else _all_die).start()
        with contextlib.suppress(Exception):  # nobody learns of it
            world.run()
        time.sleep(self.seconds + 1)


@STEPS.add
@dataclass(frozen=True)
class WorkersKilled(Step):
    """Spark's Python workers die at some moment of a run, which may fail, or run on without end."""

    seconds: float

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self:
        return cls(round(dice.uniform(0.05, 3), 2))

    def do(self, world: World) -> str:
        killed: list[int] = []
        timer = threading.Timer(self.seconds, lambda: killed.extend(_kill_workers()))
        timer.start()
        failed = ""
        try:
            world.run()
        except ResourceFailedError:
            failed = ", and the run failed"
        timer.join()
        world.quiet = "no"
        with contextlib.suppress(ResourceFailedError):
            world.stop_following()
        return f"{len(killed)} killed{failed}"


@STEPS.add
@dataclass(frozen=True)
class HalfCommit(Step):
    """A writer has died between its files and its commit: both lie about, and belong to no version."""

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
    """There is hardly any room while everything runs, which then says so; afterwards there is."""

    kilobytes: int

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self:
        return cls(dice.choice([0, 8, 64, 512]))

    def do(self, world: World) -> str:
        if shutil.disk_usage(world.warehouse).total > SMALL << 20:
            return "the disk is not a small one"
        world.stop_following()
        ballast = world.warehouse.parent / "ballast"
        with ballast.open("wb") as file:
            free = shutil.disk_usage(world.warehouse).free
            os.posix_fallocate(file.fileno(), 0, free - (self.kilobytes << 10))
        try:
            world.run()
        except KasprError as error:
            return str(error)
        finally:
            ballast.unlink()
            world.quiet = "no"
        return "there was room"


@dataclass(frozen=True)
class _Clock(Step):
    """The clock of the process is moved, and goes on from there, also in the processes after it."""

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
class ClockForward(_Clock):
    """The clock jumps forward."""

    weight = 1

    def do(self, world: World) -> None:
        self.move(world, self.hours * _HOUR)


@STEPS.add
@dataclass(frozen=True)
class ClockBack(_Clock):
    """The clock jumps back."""

    weight = 1

    def do(self, world: World) -> None:
        self.move(world, -self.hours * _HOUR)


def _all_die() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _kill_workers() -> Iterator[int]:
    """Kill the workers of this process's JVM; their ids."""
    session = os.getsid(0)  # their group is one of their own
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            if b"pyspark.daemon" in (process / "cmdline").read_bytes() and os.getsid(int(process.name)) == session:
                os.kill(int(process.name), signal.SIGKILL)
                yield int(process.name)

"""Processes that die: this one, alone or with all that it has started, and Spark's workers."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kaspr_delta import ResourceFailedError
from tests.chaos.steps.step import STEPS, Step
from tests.spark.dying import die, watched_writes

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.chaos.recipe import Recipe
    from tests.chaos.world import World

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


def _all_die() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _kill_workers() -> Iterator[int]:
    """Kill the workers of this process's JVM, but not what forks them: a JVM that loses that fails once itself."""
    parents: dict[int, int] = {}
    forked = set[int]()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            _, _, rest = (process / "stat").read_text().rpartition(")")
            parents[int(process.name)] = int(rest.split()[1])
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                forked.add(int(process.name))
    for worker in forked:
        if parents[worker] in forked and os.getpid() in _ancestors(worker, parents):
            with contextlib.suppress(OSError):
                os.kill(worker, signal.SIGKILL)
                yield worker


def _ancestors(process: int, parents: Mapping[int, int]) -> Iterator[int]:
    while process in parents:
        process = parents[process]
        yield process

"""Kills of processes: of the child, alone or with all processes that it has started, and of Spark's workers."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
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

# Seconds to wait for the write at which a continuous run dies.
_WATCH_SECONDS = 5.0


@STEPS.add
@dataclass(frozen=True)
class KilledAtWrite(Step):
    """The process dies before or after one of the writes of a run. It survives a run with fewer writes."""

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
                time.sleep(_WATCH_SECONDS)
        return "there were less"


@STEPS.add
@dataclass(frozen=True)
class KilledDuringRun(Step):
    """The process dies during a run or soon after it, alone or with its JVM and workers."""

    seconds: float
    alone: bool

    deadly = True

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self:
        return cls(round(dice.uniform(0.05, 6), 2), dice.random() < 0.5)

    def do(self, world: World) -> None:
        _run_and_kill(world, self.seconds, die if self.alone else _kill_group)


@STEPS.add
@dataclass(frozen=True)
class WorkersKilled(Step):
    """Spark's Python workers die during or after a run, which may fail. A continuous run is stopped afterwards."""

    seconds: float

    @classmethod
    def draw(cls, dice: random.Random, recipe: Recipe) -> Self:
        return cls(round(dice.uniform(0.05, 3), 2))

    def do(self, world: World) -> str:
        killed: list[int] = []
        failure = _run_and_kill(world, self.seconds, lambda: killed.extend(_kill_workers()))
        if failure is not None and not (killed and isinstance(failure, ResourceFailedError)):
            raise failure
        world.quiet = "no"
        with contextlib.suppress(ResourceFailedError):
            world.stop_continuous_run()
        return f"{len(killed)} killed{', and the run failed' if failure else ''}"


def _run_and_kill(world: World, seconds: float, kill: Callable[[], None]) -> Exception | None:
    """Run, and call ``kill`` after some seconds. The error of the run; it is raised if it came before the kill."""
    killing, failure = threading.Event(), None

    def kill_now() -> None:
        killing.set()
        kill()

    timer = threading.Timer(seconds, kill_now)
    timer.start()
    try:
        world.run()
    except Exception as error:
        if not killing.is_set():
            timer.cancel()
            raise
        failure = error
    timer.join()
    return failure


def _kill_group() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _kill_workers() -> Iterator[int]:
    """Kill the Python workers of this process's JVM and yield their ids.

    The daemon that forks them is spared: without it the JVM fails once.
    """
    parents: dict[int, int] = {}
    forked = set[int]()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended
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

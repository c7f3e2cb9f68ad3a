"""Kills of processes: of the child, alone or with all processes that it has started, and of Spark's workers."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kaspr_delta import ResourceFailedError
from tests.chaos.shapes.shape import one_of
from tests.chaos.steps.step import action
from tests.chaos.world import World
from tests.spark.dying import die, watched_writes

# Seconds to wait for the write at which a continuous run dies.
_WATCH_SECONDS = 5.0


@action(
    deadly=True,
    write=lambda dice, recipe: dice.randint(1, 4 * len(recipe.shapes)),
    moment=one_of("before", "after"),
)
def die_at_write(world: World, write: int, moment: str) -> str:
    """The process dies before or after one of the writes of a run. It survives a run with fewer writes."""
    numbers = itertools.count(1)

    def watch(_: tuple[Any, ...], when: str) -> None:
        if when == moment and next(numbers) == write:
            die()

    with watched_writes(watch):
        if world.run() is not None:
            time.sleep(_WATCH_SECONDS)
    return "there were less"


@action(deadly=True, seconds=lambda dice, _: round(dice.uniform(0.05, 6), 2), alone=lambda dice, _: dice.random() < 0.5)
def die_during_run(world: World, seconds: float, *, alone: bool) -> None:
    """The process dies during a run or soon after it, alone or with its JVM and workers."""
    _run_and_kill(world, seconds, die if alone else lambda: os.killpg(0, signal.SIGKILL))


@action(seconds=lambda dice, _: round(dice.uniform(0.05, 3), 2))
def kill_workers(world: World, seconds: float) -> str:
    """Spark's Python workers die during or after a run, which may fail. A continuous run is stopped afterwards."""
    killed: list[int] = []
    failure = _run_and_kill(world, seconds, lambda: killed.extend(_kill_workers()))
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


def _kill_workers() -> Iterator[int]:
    """Kill the Python workers of this session's JVM and yield their ids.

    The daemon that forks them is spared: without it the JVM fails once.
    """
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended
            process = int(folder.name)
            if os.getsid(process) == os.getsid(0) and b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                parents[process] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    for process, parent in parents.items():
        if parent in parents:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
                yield process

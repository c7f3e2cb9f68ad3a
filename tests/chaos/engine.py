"""The child, a process that does the steps, and its side in the parent, which starts a new one after it has died."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import signal
import time
import traceback
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from concurrent.futures import TimeoutError as TooLateError
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.chaos.shapes.shape import Recipe
from tests.chaos.steps import ACTIONS, Step, do_step
from tests.chaos.tables import Stored
from tests.chaos.world import Quiet, World
from tests.empty_tables import empty_tables_copied_from
from tests.few_rows import session_for_few_rows


class FailedError(Exception):
    """A command failed in the child. ``kind`` is the class name of the error raised there."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class DiedError(Exception):
    """The child has died."""


class Child:
    """The child: its commands are the public methods, ``open`` the first of them. One JVM serves many histories."""

    current: Child
    """The one of this process."""

    def __init__(self, folder: Path) -> None:
        self.spark = session_for_few_rows(folder / "spark.log")
        self.world: World
        self._held = contextlib.ExitStack()
        self._held.enter_context(empty_tables_copied_from(folder / "empty"))

    def open(self, recipe: dict[str, Any], warehouse: str) -> None:
        """Open an application, to which later steps apply."""
        with contextlib.suppress(Exception):  # there was no other one, or its history is over: failures do not count
            self.world.close()
            del self.world
        gc.collect()
        jvm: Any = self.spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # the logs of all histories would not fit in memory
        self.world = World(self.spark, Recipe.read(recipe), Path(warehouse))
        self.world.start()

    def do(self, step: Step) -> tuple[str | None, Quiet]:
        """Do a step. Its remark, and whether the application can be judged."""
        self.world.quiet = "no"
        remark = do_step(step, self.world)
        return remark, self.world.quiet

    def rows(self, folder: Path) -> Stored:
        """All rows of a table."""
        return self.world.rows(folder)


def _begin(folder: Path) -> None:
    """Make this process a child."""
    os.setsid()  # its group will have the JVM and Spark's workers too
    with (folder / "child.log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # shows where a command hangs
    Child.current = Child(folder)


def _answer(command: str, *arguments: Any) -> tuple[bool, Any]:
    """Do a command: True and its result, or False and the error, which the parent might not be able to unpickle."""
    try:
        return True, getattr(Child.current, command)(*arguments)
    except Exception as error:  # noqa: BLE001  the parent judges it
        return False, (type(error).__name__, f"{error}\n{traceback.format_exc()}")


class Engine:
    """A child, started when it is needed. ``patience``: the most seconds that a command may take."""

    def __init__(self, folder: Path, patience: float = 300.0) -> None:
        self.folder = folder
        self.patience = patience
        self.starts = 0
        self._pool: ProcessPoolExecutor | None = None
        self._process: int | None = None
        self._opened: tuple[dict[str, Any], str] | None = None

    def open(self, recipe: Recipe, warehouse: Path) -> None:
        """Open an application, to which later steps apply. Raises FailedError and DiedError."""
        self._opened = None
        opened = recipe.write(), str(warehouse)
        self._send("open", *opened)
        self._opened = opened

    def do(self, step: Step) -> tuple[str | None, Quiet]:
        """Do a step, which may be deadly. Its remark, and whether the application can be judged.

        Raises FailedError and DiedError.
        """
        try:
            done: tuple[str | None, Quiet] = self._send("do", step)
        except DiedError:
            if not ACTIONS[step["step"]].deadly:
                raise
            return "killed", "no"
        return done

    def rows(self, folder: Path) -> Stored:
        """All rows of a table."""
        rows: Stored = self._send("rows", folder)
        return rows

    def close(self) -> None:
        """End the child, its JVM and its workers."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process, signal.SIGKILL)
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = self._process = None

    def _send(self, *command: Any) -> Any:
        log = self.folder / "child.log"
        try:
            pool = self._pool or self._start()
            succeeded, answer = pool.submit(_answer, *command).result(self.patience)
        except TooLateError as error:
            if self._process is not None:
                os.kill(self._process, signal.SIGUSR1)
                time.sleep(1)
            self.close()
            raise FailedError("TimeoutError", f"{command[0]} does not end: {log} has the stacks") from error
        except BrokenExecutor as error:
            self.close()
            raise DiedError(f"{command[0]}: the process has died; see {log}") from error
        if succeeded:
            return answer
        raise FailedError(*answer)

    def _start(self) -> ProcessPoolExecutor:
        """Start a child that has the application open."""
        self.starts += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        self._pool = pool = ProcessPoolExecutor(1, get_context("spawn"), _begin, (self.folder,))
        self._process = pool.submit(os.getpid).result(self.patience)
        if self._opened is not None:
            self._send("open", *self._opened)
        return pool

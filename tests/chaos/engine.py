"""The parent's end of the pipe: starts the child that does the steps, and a new one after it has died."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.chaos.recipe import Recipe
from tests.chaos.steps import ACTIONS, Step
from tests.chaos.tables import Stored
from tests.chaos.world import Quiet

_ROOT = Path(__file__).parents[2]


class FailedError(Exception):
    """A command failed in the child. ``kind`` is the class name of the error raised there, ``trace`` its traceback."""

    def __init__(self, kind: str, message: str, trace: str) -> None:
        super().__init__(f"{message}\n{trace}")
        self.kind = kind


class DiedError(Exception):
    """The child has died."""


class Engine:
    """A child, started when it is needed. ``patience``: the most seconds that a command may take."""

    def __init__(self, folder: Path, patience: float = 300.0) -> None:
        self.folder = folder
        self.patience = patience
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
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
        rows: Stored = self._send("rows", str(folder))
        return rows

    def close(self) -> None:
        """End the child, its JVM and its workers."""
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # its group has the JVM and Spark's workers too
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = self._pipe = None

    def _send(self, *command: Any) -> Any:
        pipe = self._pipe or self._start()
        try:
            pipe.send(command)
            if not pipe.poll(self.patience):
                self._dump_stacks()
                log = self.folder / "child.log"
                raise FailedError("TimeoutError", f"{command[0]} does not end: {log} has the stacks", "")
            succeeded, answer = pipe.recv()
        except (EOFError, ConnectionError) as error:
            self.close()
            raise DiedError(f"{command[0]}: the process has died; see {self.folder / 'child.log'}") from error
        if succeeded:
            return answer
        raise FailedError(*answer)

    def _start(self) -> Connection:
        """Start a child that has the application open. Returns the pipe to it."""
        self.starts += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        self._pipe, its = Pipe()
        program = [sys.executable, "-m", "tests.chaos.child", str(its.fileno()), str(self.folder)]
        with (self.folder / "child.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                program,
                cwd=_ROOT,
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        its.close()
        pipe = self._pipe
        if self._opened is not None:
            self._send("open", *self._opened)
        return pipe

    def _dump_stacks(self) -> None:
        """Make a child that hangs write its stacks, and end it."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGUSR1)
            time.sleep(1)
        self.close()

"""Runs a history, step by step, until the first failure."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.chaos.engine import DiedError, Engine, FailedError
from tests.chaos.history import History
from tests.chaos.judge import Failure, judged
from tests.chaos.steps import STEPS, Step
from tests.chaos.tables import Tables

# Seconds for a continuous run to catch up, and between two checks of it.
_PATIENCE = 120.0
_POLL_SECONDS = 0.5

Say = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """The number of steps that were done and of quiet points that were judged, and the failure of the last step."""

    steps: int
    judged: int
    failure: Failure | None


class Life:
    """The run of one history on a new warehouse in a folder."""

    def __init__(self, engine: Engine, history: History, folder: Path, say: Say = lambda _: None) -> None:
        self.engine, self.history, self.folder, self.say = engine, history, folder, say
        self.points = 0
        self._tables = Tables(folder / "warehouse", engine)

    def live(self) -> Outcome:
        """Do the steps until the first failure, then delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            return self._live()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _live(self) -> Outcome:
        failure = self._failure_of("open", lambda: self.engine.open(self.history.recipe, self.folder / "warehouse"))
        for number, step in enumerate(self.history.steps, 1):
            if failure is not None:
                return Outcome(number - 1, self.points, failure)
            failure = self._failure_of(type(step).__name__, partial(self._step, number, step))
        return Outcome(len(self.history.steps), self.points, failure)

    def _step(self, number: int, step: Step) -> Failure | None:
        started = time.monotonic()
        remark, quiet = self.engine.do(step)
        self.say(f"{number:4} {time.monotonic() - started:5.1f} s  {line_of(step)}{f'  ({remark})' if remark else ''}")
        if quiet == "no":
            return None
        self.points += 1
        deadline = time.monotonic() + (_PATIENCE if quiet == "soon" else 0)
        while True:
            failure = next(judged(self.history.recipe, self._tables, runs=quiet == "soon"), None)
            if failure is None or time.monotonic() >= deadline:
                return failure
            time.sleep(_POLL_SECONDS)

    def _failure_of(self, name: str, work: Callable[[], Failure | None]) -> Failure | None:
        """The failure that the work returns, or one made of the error that it raises."""
        try:
            return work()
        except FailedError as error:
            return Failure(f"{name} raises {error.kind}", f"{error}\n{error.trace}")
        except DiedError as error:
            return Failure(f"{name} dies", str(error))


def line_of(step: Step) -> str:
    """A step as text, with its fields."""
    fields = {name: value for name, value in STEPS.write(step).items() if name != "step"}
    return " ".join([type(step).__name__, *(f"{name}={value}" for name, value in fields.items())])

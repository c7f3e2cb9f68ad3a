"""Lives through a history, step by step, until something is wrong."""

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

# Seconds for what runs without end to catch up, and between two looks at it.
_PATIENCE = 120.0
_LOOK = 0.5

Say = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """How many steps of a history were lived, how many quiet points were judged, and what was wrong at the end."""

    steps: int
    judged: int
    failure: Failure | None


class Life:
    """One history on a new warehouse in a folder."""

    def __init__(self, engine: Engine, history: History, folder: Path, say: Say = lambda _: None) -> None:
        self.engine, self.history, self.folder, self.say = engine, history, folder, say
        self.points = 0
        self._tables = Tables(folder / "warehouse", engine)

    def live(self) -> Outcome:
        """Do the steps until the first failure. The folder is gone afterwards."""
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            return self._live()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _live(self) -> Outcome:
        failure = self._attempted("open", lambda: self.engine.open(self.history.recipe, self.folder / "warehouse"))
        for number, step in enumerate(self.history.steps, 1):
            if failure is not None:
                return Outcome(number - 1, self.points, failure)
            failure = self._attempted(type(step).__name__, partial(self._step, number, step))
        return Outcome(len(self.history.steps), self.points, failure)

    def _step(self, number: int, step: Step) -> Failure | None:
        started = time.monotonic()
        remark, quiet = self.engine.do(step)
        self.say(f"{number:4} {time.monotonic() - started:5.1f} s  {told(step)}{f'  ({remark})' if remark else ''}")
        if quiet == "no":
            return None
        self.points += 1
        deadline = time.monotonic() + (_PATIENCE if quiet == "soon" else 0)
        while True:
            failure = next(judged(self.history.recipe, self._tables, runs=quiet == "soon"), None)
            if failure is None or time.monotonic() >= deadline:
                return failure
            time.sleep(_LOOK)

    def _attempted(self, name: str, work: Callable[[], Failure | None]) -> Failure | None:
        """What is wrong, be it an answer or something that was raised."""
        try:
            return work()
        except FailedError as error:
            return Failure(f"{name} raises {error.kind}", f"{error}\n{error.trace}")
        except DiedError as error:
            return Failure(f"{name} dies", str(error))


def told(step: Step) -> str:
    """A step as a line of the story."""
    fields = {name: value for name, value in STEPS.write(step).items() if name != "step"}
    return " ".join([type(step).__name__, *(f"{name}={value}" for name, value in fields.items())])

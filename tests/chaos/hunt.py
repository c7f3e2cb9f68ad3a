"""Hunts for histories that fail: one seed after the other until the time is over."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.chaos.engine import DiedError, Engine, FailedError
from tests.chaos.history import History
from tests.chaos.judge import Failure, judged
from tests.chaos.steps import Step
from tests.chaos.tables import Tables
from tests.small_disk import mounted

# Seconds for a continuous run to catch up, and between two checks of it.
_PATIENCE = 120.0
_POLL_SECONDS = 0.5


@dataclass
class Hunt:
    """A run of many histories on one engine, each in a new folder.

    ``kept``: the folder for histories that fail. ``patience``: the most seconds to shrink one. ``steps``: the number of
    random steps of a history. ``judged`` counts the quiet points.
    """

    engine: Engine
    folder: Path
    kept: Path
    say: Callable[[str], None] = print
    patience: float = 300.0
    steps: int = 40
    histories: int = 0
    judged: int = 0

    def hunt(self, seed: int, minutes: float, histories: int | None = None) -> list[Failure]:
        """Run random histories, from a seed on, until their number or the time is reached. The failures found."""
        started = time.monotonic()
        found = []
        for number in itertools.count(seed):
            if time.monotonic() > started + 60 * minutes or (histories is not None and number >= seed + histories):
                break
            history = History.draw(number, self.steps)
            done, failure = self.live(history)
            if failure is not None:
                found.append(failure)
                self._shrink(replace(history, steps=history.steps[: max(done, 1)]), failure)
        took = (time.monotonic() - started) / 60
        self.say(
            f"{self.histories} histories, {self.judged} quiet points in {took:.1f} minutes,"
            f" {self.engine.starts} processes, {len(found)} failures"
        )
        return found

    def live(self, history: History) -> tuple[int, Failure | None]:
        """Do the steps of a history on a new warehouse until the first failure. The number of steps done, and it."""
        tables = Tables(self.folder / "warehouse", self.engine.rows)
        self.histories += 1
        self.say(f"seed {history.seed}: {history.recipe}")
        shutil.rmtree(self.folder, ignore_errors=True)
        name, done = "open", 0
        try:
            self.engine.open(history.recipe, tables.warehouse)
            failure = None
            while failure is None and done < len(history.steps):
                step = history.steps[done]
                name, done = step["step"], done + 1
                failure = self._step(done, step, history, tables)
        except FailedError as error:
            failure = Failure(f"{name} raises {error.kind}", str(error))
        except DiedError as error:
            failure = Failure(f"{name} dies", str(error))
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        if failure is not None:
            self.say(f"seed {history.seed}, step {done}: {failure}")
        return done, failure

    def _step(self, number: int, step: Step, history: History, tables: Tables) -> Failure | None:
        started = time.monotonic()
        remark, quiet = self.engine.do(step)
        shown = " ".join(f"{name}={value}" if name != "step" else value for name, value in step.items())
        self.say(f"{number:4} {time.monotonic() - started:5.1f} s  {shown}{f'  ({remark})' if remark else ''}")
        if quiet == "no":
            return None
        self.judged += 1
        deadline = time.monotonic() + (_PATIENCE if quiet == "soon" else 0)
        while True:
            failure = next(judged(history.recipe, tables, runs=quiet == "soon"), None)
            if failure is None or time.monotonic() >= deadline:
                return failure
            time.sleep(_POLL_SECONDS)

    def _shrink(self, history: History, failure: Failure) -> None:
        """Write a history that fails to its file, then a shorter one that fails in the same way."""
        file = self.kept / f"seed-{history.seed}.jsonl"
        history.write(file)
        silent = replace(self, say=lambda _: None)

        def still_fails(shorter: History) -> bool:
            _, again = silent.live(shorter)
            return again is not None and again.kind == failure.kind

        history = history.shrunk(still_fails, self.patience)
        history.write(file)
        self.say(f"shrunk to {len(history.steps)} steps; replay with: python -m tests.chaos --replay {file}")
        self.say(file.read_text())


@contextmanager
def hunting(folder: Path, kept: Path, say: Callable[[str], None] = print, **options: Any) -> Iterator[Hunt]:
    """A hunt on a small disk in a folder, and its engine, until the block ends."""
    with mounted(folder / "disk") as problem, closing(Engine(folder / "engine")) as engine:
        if problem:
            say(f"no disk is filled, for there is no small one: {problem}")
        yield Hunt(engine, folder / "disk" / "history", kept, say, **options)

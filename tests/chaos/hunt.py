"""Hunts for histories that fail: one seed after the other until the time is over."""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos.engine import Engine
from tests.chaos.history import History
from tests.chaos.judge import Failure
from tests.chaos.living import Life, Outcome, Say
from tests.chaos.shrink import shrunk
from tests.small_disk import mounted

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Found:
    """A failure, a short history that leads to it, and the file of that history."""

    failure: Failure
    history: History
    file: Path


@dataclass
class Hunt:
    """A run of many histories on one engine.

    ``kept``: the folder for histories that fail. ``patience``: the most seconds to shrink one. ``steps``: the number of
    random steps of a history.
    """

    folder: Path
    kept: Path
    say: Say = print
    patience: float = 300.0
    steps: int = 40
    engine: Engine = field(init=False)
    histories: int = field(default=0, init=False)
    judged: int = field(default=0, init=False)
    _held: ExitStack = field(default_factory=ExitStack, init=False)

    def __enter__(self) -> Self:
        problem = self._held.enter_context(mounted(self.folder / "disk"))
        if problem:
            self.say(f"no disk is filled, for there is no small one: {problem}")
        self.engine = self._held.enter_context(Engine(self.folder / "engine"))
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def hunt(self, seed: int, minutes: float, histories: int | None = None) -> list[Found]:
        """Run random histories, from a seed on, until their number or the time is reached. The failures found."""
        started = time.monotonic()
        deadline = started + 60 * minutes
        found = []
        for number in itertools.count(seed):
            if time.monotonic() > deadline or (histories is not None and number >= seed + histories):
                break
            history = History.draw(number, self.steps)
            outcome = self.live(history)
            if outcome.failure is not None:
                found.append(self._found(history, outcome, outcome.failure))
        minutes = (time.monotonic() - started) / 60
        self.say(
            f"{self.histories} histories, {self.judged} quiet points in {minutes:.1f} minutes,"
            f" {self.engine.starts} processes, {len(found)} failures"
        )
        return found

    def live(self, history: History) -> Outcome:
        """Run one history, and report its steps."""
        shapes = ", ".join(f"{shape.name}({', '.join(shape.reads)})" for shape in history.recipe.shapes)
        sources = ", ".join(f"{source.name}: {source.kind}" for source in history.recipe.sources)
        self.say(f"seed {history.seed}: {sources}; {shapes}")
        outcome = Life(self.engine, history, self.folder / "disk" / "history", self.say).live()
        self.histories += 1
        self.judged += outcome.judged
        if outcome.failure is not None:
            self.say(f"seed {history.seed}, step {outcome.steps}: {outcome.failure}")
        return outcome

    def _found(self, history: History, outcome: Outcome, failure: Failure) -> Found:
        """Shrink a history that fails, and write it to its file."""

        def still_fails(shorter: History) -> bool:
            again = Life(self.engine, shorter, self.folder / "disk" / "history").live().failure
            return again is not None and again.kind == failure.kind

        file = self.kept / f"seed-{history.seed}.jsonl"
        history.write(file)
        history = shrunk(history.of(history.steps[: max(outcome.steps, 1)]), still_fails, self.patience)
        history.write(file)
        self.say(f"shrunk to {len(history.steps)} steps; replay with: python -m tests.chaos --replay {file}")
        self.say(file.read_text())
        return Found(failure, history, file)

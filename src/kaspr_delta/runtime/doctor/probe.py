"""Probes: questions to a warehouse, each with the sentences that say what the engine does about the answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal

from typing_extensions import TypeVar

from kaspr_delta.runtime.doctor.bench import Bench, in_words
from kaspr_delta.runtime.failures import short_text

Grade = Literal["ok", "note", "problem"]
"""``note``: the engine gets by. ``problem``: something does not work, or answers may be wrong."""


Place = TypeVar("Place", default=Bench)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a probe: its figure or its error, and what the engine does about it."""

    grade: Grade
    seen: str
    effect: str


@dataclass(frozen=True, slots=True)
class Probe(Generic[Place]):
    """A question to a warehouse, which is asked on a bench: its throw-away tables and files.

    ``ask`` returns a figure, or raises an error if the answer is no. The engine then does ``otherwise``, and ``then``
    if the answer is yes. ``needs`` are the privileges without which the answer is no.
    """

    name: str
    question: str
    ask: Callable[[Place], str]
    then: str
    otherwise: str
    needs: tuple[str, ...] = ()
    if_not: Grade = "problem"

    def answer(self, bench: Place, seconds: float) -> Answer:
        """The answer, for which the probe has so many seconds."""
        if seconds <= 0:
            return Answer("problem", "not asked: no time was left", "unknown; ask again with a longer --within")
        answers: list[Answer] = []
        # A statement that hangs cannot be stopped: its thread is left behind.
        thread = threading.Thread(target=lambda: answers.append(self._answer(bench)), name=self.name, daemon=True)
        thread.start()
        thread.join(seconds)
        if answers:
            return answers[0]
        return Answer("problem", f"no answer in {in_words(seconds)}", self.otherwise)

    def _answer(self, bench: Place) -> Answer:
        try:
            return Answer("ok", self.ask(bench), self.then)
        except BaseException as error:  # noqa: BLE001  one probe stops no other; also the panics of delta-rs
            return Answer(self.if_not, short_text(error), self.otherwise)


def answers(probes: Iterable[Probe[Place]], bench: Place, seconds: float) -> Iterator[tuple[Probe[Place], Answer]]:
    """The answers of probes, one after the other, in so many seconds all together."""
    end = time.monotonic() + seconds
    for probe in probes:
        yield probe, probe.answer(bench, end - time.monotonic())

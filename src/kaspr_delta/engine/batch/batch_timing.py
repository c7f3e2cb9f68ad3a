"""How long the steps of a batch take."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from kaspr_delta.engine.batch.counters import work


@dataclass
class BatchTiming:
    """The steps of one batch: ``milliseconds`` are among what it counts (see ``engine.batch.counters``).

    Between two steps a batch may wait, which counts for none.
    """

    milliseconds: dict[str, int] = field(default_factory=dict, init=False)
    _since: float = field(default_factory=time.monotonic, init=False)

    @property
    def seconds(self) -> float:
        """How long all steps took."""
        return sum(self.milliseconds.values()) / 1_000

    def begin(self) -> None:
        """A step begins now, not where the one before has ended."""
        self._since = time.monotonic()

    def done(self, step: str) -> None:
        """A step has ended, or a part of it."""
        now, name = time.monotonic(), work(step)
        self.milliseconds[name] = self.milliseconds.get(name, 0) + round((now - self._since) * 1_000)
        self._since = now

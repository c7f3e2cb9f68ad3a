"""How long the steps of a batch take."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from kaspr_delta.engine.batch.counters import work


@dataclass
class BatchTiming:
    """The steps of one batch. Their ``milliseconds`` are counters (see ``engine.batch.counters``).

    A wait between two steps counts for neither of them.
    """

    milliseconds: dict[str, int] = field(default_factory=dict, init=False)
    _since: float = field(default_factory=time.monotonic, init=False)

    @property
    def seconds(self) -> float:
        """The duration of all steps."""
        return sum(self.milliseconds.values()) / 1_000

    def begin(self) -> None:
        """Begin a step now, not at the end of the one before."""
        self._since = time.monotonic()

    def done(self, step: str) -> None:
        """End a step, or a part of it."""
        now, name = time.monotonic(), work(step)
        self.milliseconds[name] = self.milliseconds.get(name, 0) + round((now - self._since) * 1_000)
        self._since = now

"""A clock of the process that steps can move: that of Python's ``time`` and ``datetime``.

The clocks of the JVM, of delta-rs and of Spark's Python workers are not moved.
"""

from __future__ import annotations

import time

import time_machine


class Clock:
    """The clock; ``ahead`` are the seconds by which it is ahead of the machine's."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._moved: time_machine.travel | None = None

    def set(self, ahead: float) -> None:
        """Set the clock this many seconds ahead of the machine's."""
        if self._moved is not None:
            self._moved.stop()
        self.ahead, self._moved = ahead, time_machine.travel(time.time() + ahead)
        self._moved.start()

"""A monotonic clock for durations: changes of the system's clock do not affect it."""

from __future__ import annotations

import sys
import time


def seconds() -> float:
    """Seconds since some moment. On Linux the time for which the machine was suspended is counted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()

"""A clock for lengths of time: nobody sets it, and it has no date."""

from __future__ import annotations

import sys
import time


def seconds() -> float:
    """Seconds since some moment. On Linux the time for which the machine was suspended is counted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()

"""A clock of the process that somebody moves: what Python's ``time`` and ``datetime`` tell this package.

The clocks of the JVM, of delta-rs and of Spark's Python workers go on as they are.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from typing import Any

_TIME, _TIME_NS = time.time, time.time_ns


class _LikeDatetime(type):
    """A class that is ``datetime`` in all but the time it is now."""

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return datetime(*arguments, **named)  # noqa: DTZ001  whoever calls says so

    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, datetime)

    def __getattr__(cls, name: str) -> Any:
        return getattr(datetime, name)


class Clock:
    """Seconds that the process's clock is ahead of the machine's."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._datetime = _LikeDatetime("datetime", (), {"now": staticmethod(self._now)})

    def set(self, ahead: float) -> None:
        """Move the clock, also for modules of this package that were imported since."""
        self.ahead = ahead
        functions: dict[str, Callable[[], Any]] = {"time": self._time, "time_ns": self._time_ns}
        for name, function in functions.items():
            setattr(time, name, function)
        for name, module in list(sys.modules.items()):
            if name.startswith("kaspr_delta") and getattr(module, "datetime", None) is datetime:
                module.datetime = self._datetime  # type: ignore[attr-defined]

    def _time(self) -> float:
        return _TIME() + self.ahead

    def _time_ns(self) -> int:
        return _TIME_NS() + int(self.ahead * 1e9)

    def _now(self, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) + timedelta(seconds=self.ahead)

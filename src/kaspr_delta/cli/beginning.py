"""The beginning of a run that a platform starts again when it ends: where it cannot begin it fails once, then waits."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from typing import TypeVar

from kaspr_delta.cli.interruption import Stop, stopped_by_signal
from kaspr_delta.cli.progress import warn
from kaspr_delta.errors import first_line, may_pass
from kaspr_delta.storage.settled import Settled

Begun = TypeVar("Begun")
# Seconds until the same is tried again, and for how long nobody is reminded of it.
_PAUSE = 3_600.0
_REMINDER = timedelta(days=1)


def begun(
    begin: Callable[[], Begun],
    settled: Settled,
    revision: str,
    only: Collection[str],
    stopped: Callable[[Stop], AbstractContextManager[None]],
    pause: float = _PAUSE,
) -> Begun | None:
    """The answer of ``begin``; None if the run was stopped before it could begin.

    Raises the error of ``begin``. If a run of the same ``revision`` and resources, ``only`` or all, has failed by the
    same one in the last day, and nothing but a change mends it, it tries again after a ``pause`` in seconds instead.
    """
    run = " ".join(sorted(only))
    while True:
        try:
            found = begin()
        except Exception as error:
            if may_pass(error) or _is_news(settled, run, f"{revision} {first_line(error)}"):
                raise
            again = f"tried again in {pause / 60:.0f} min, or after a deployment"
            warn(f"{error}\na run failed for this within the last day; {again}")
        else:
            settled.note_begun(run)
            return found
        with stopped_by_signal() as stop, stopped(stop):
            if stop.asked.wait(pause):
                return None


def _is_news(settled: Settled, run: str, error: str) -> bool:
    """Whether a run has to fail for an error, which is noted then."""
    now = datetime.now(timezone.utc)
    before, at = settled.not_begun(run) or ("", now)
    if before == error and timedelta(0) <= now - at < _REMINDER:
        return False
    settled.note_not_begun(run, error, now)
    return True

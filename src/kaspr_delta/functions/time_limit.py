"""A limit to how long one event may take, so that a function that never ends holds up only its own event.

A watch thread raises an exception in the thread that is late. Python code notices it at its next step; a call that
waits outside Python, for example for a socket, notices it when it returns.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from threading import get_ident
from time import monotonic
from types import TracebackType

# Seconds between two checks by the watch thread.
_POLL = 0.2
# The deadlines of threads inside a block, by thread id. Each operation on the dictionary is atomic.
_deadlines: dict[int, float] = {}
_starting = threading.Lock()
# Held while a deadline is removed and its exception is sent.
_ending = threading.Lock()
_watch: threading.Thread | None = None


class EventTimeoutError(BaseException):
    """An event took longer than allowed. Not an ``Exception``, so that no function catches it by accident."""

    def __str__(self) -> str:
        return "the event took longer than its application's config.eventTimeout allows"


class at_most:  # noqa: N801  reads as a statement; a class, because every event enters it
    """Limit a block to so many seconds; may be entered again. Raises EventTimeoutError in the block."""

    __slots__ = ("_seconds",)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        if _watch is None:
            _start_watch()
        _deadlines[get_ident()] = monotonic() + self._seconds

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if _deadlines.pop(get_ident(), None) is not None or kind is EventTimeoutError:
            return
        # The watch has removed the deadline. Until it releases the lock it may put it back, or send its exception. That
        # arrives here.
        with _ending:
            is_back = _deadlines.pop(get_ident(), None) is not None
        for _ in range(0 if is_back else 100):
            time.sleep(0.001)


def _start_watch() -> None:
    global _watch  # noqa: PLW0603  one per process
    with _starting:
        if _watch is None:
            _watch = threading.Thread(target=_keep_watch, name="event timeout", daemon=True)
            _watch.start()


def _forget_watch() -> None:
    """Reset the state in a forked process: it has the variable, but not the thread."""
    global _watch, _starting, _ending
    _watch, _starting, _ending = None, threading.Lock(), threading.Lock()
    _deadlines.clear()


os.register_at_fork(after_in_child=_forget_watch)


def _keep_watch() -> None:
    while True:
        time.sleep(_POLL)
        now = monotonic()
        for thread, deadline in list(_deadlines.items()):
            # Only the thread that removes the deadline ends the block: the late thread, or this one.
            if deadline < now:
                _end(thread, deadline)


def _end(thread: int, deadline: float) -> None:
    """End a thread's block, unless the thread has left it, and perhaps has entered another one."""
    with _ending:
        found = _deadlines.pop(thread, None)
        if found == deadline:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(EventTimeoutError))
        elif found is not None:
            _deadlines[thread] = found

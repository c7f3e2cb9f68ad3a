"""Ends this process by SIGKILL, and calls a function before and after each write to a Delta table."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn
from unittest import mock

from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.tables import Tables

Watch = Callable[[tuple[Any, ...], str], None]
"""Called before and after a write with its arguments, the table among them, and the moment."""

_WRITERS: tuple[tuple[type, str], ...] = (
    (Tables, "append"),
    (Tables, "merge"),
    (Tables, "update"),
    (DeltaRs, "append"),
)


@contextmanager
def watched_writes(watch: Watch) -> Iterator[None]:
    """Call ``watch`` before and after every write until the block ends."""
    with ExitStack() as patched:
        for writer, method in _WRITERS:
            patched.enter_context(mock.patch.object(writer, method, _watched(getattr(writer, method), watch)))
        yield


def _watched(write: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    def watched(self: Any, *arguments: Any, **named: Any) -> Any:
        watch(arguments, "before")
        done = write(self, *arguments, **named)
        watch(arguments, "after")
        return done

    return watched


def lost_power(*_: Any, **__: Any) -> NoReturn:
    """Stands for a process that ends between two writes."""
    raise InterruptedError


def die(*_: object, **__: object) -> None:
    """End this process by SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)

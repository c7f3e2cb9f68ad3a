"""Ctrl-C and SIGTERM: a run finishes its batches, any other command ends at once, and nothing prints a stack.

A file that changes may end a run, too.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TypeVar

from kaspr_delta.cli.progress import console, note
from kaspr_delta.runtime.versions import installed

Result = TypeVar("Result")
Handler = Callable[[int, FrameType | None], None]
# Shells add this to a signal's number.
_BY_SIGNAL = 128


@dataclass
class Stop:
    """Whether a signal has asked to stop, and which one."""

    asked: threading.Event = field(default_factory=threading.Event)
    by: int | None = None

    @property
    def code(self) -> int:
        """The exit code of a process that a signal stopped: 130 for Ctrl-C, 143 for SIGTERM; 0 without a signal."""
        return 0 if self.by is None else _BY_SIGNAL + self.by


@contextlib.contextmanager
def ended_by_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process at once, with one sentence.

    An exception would pass through Py4J in the middle of an answer, and wait for threads. A process may be killed at
    any point, so none is needed.
    """
    with _handling([signal.SIGINT], lambda number, _: _end(number, "interrupted: committed batches are kept")):
        yield


@contextlib.contextmanager
def stopped_by_signal() -> Iterator[Stop]:
    """Let the first Ctrl-C or SIGTERM ask to stop, and the second end the process at once."""
    stop = Stop()

    def handle(number: int, _: FrameType | None) -> None:
        if stop.by is not None:
            _end(number, "ended at once: the next run goes on from here")
        stop.by = number
        # In another thread: the interrupted thread may hold the event's lock.
        threading.Thread(target=stop.asked.set).start()

    with _handling([signal.SIGINT, signal.SIGTERM], handle):
        yield stop


@contextlib.contextmanager
def stopped_by_change(stop: Stop, file: Path | None, revision: str = "", every: float = 10.0) -> Iterator[None]:
    """Let a change of a file ask to stop, too. It is read every so many seconds; a file that cannot be read is ignored.

    So a run ends when what it runs was deployed anew. With the ``revision`` with which the run was deployed it ends at
    once if the file, the state of the newest deployment, has jobs of other revisions only, or of newer code: the run
    had to wait meanwhile, and began with what was deployed before.
    """
    if file is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        before: bytes | None = None
        while not stop.asked.is_set():
            now = _content(file)
            if before is None and now is not None and revision and _is_overtaken(now, revision):
                note("another deployment came before this run could start: the next run has what was deployed")
                stop.asked.set()
            elif before is not None and now not in {None, before}:
                note(f"{file} has changed: the run ends after the batches under way")
                stop.asked.set()
            before = before or now
            if over.wait(every):
                return

    threading.Thread(target=watch, name="watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()


_REVISION = b"--revision"
# The version of this package in the names of wheels, and in requirements that name one version.
_WHEEL = re.compile(rb'(?<![\w.-])kaspr_delta-([^-/"\\]+)-py3')
_PINNED = re.compile(rb'(?<![\w.-])kaspr[-_.]delta(?:\[[^]]*])?\s*==\s*([\d.]+)(?=[\s;"\\])')


def _is_overtaken(state: bytes, revision: str) -> bool:
    """Whether a deployment has jobs, and none of them is of this revision, or one is of newer code than runs here.

    Of older code it says nothing: the deployment of this run may have broken off before it wrote its state.
    """
    if _REVISION not in state:
        return False
    running = _order(installed("kaspr-delta") or "")
    deployed = (_order(found.decode()) for found in (*_WHEEL.findall(state), *_PINNED.findall(state)))
    return revision.encode() not in state or any(one > running for one in deployed)


def _order(version: str) -> tuple[list[int], int]:
    """A version in its order: the numbers of the release without zeros at the end, and the time of its code.

    >>> _order("1.2.0+20261130") > _order("1.2") > _order("1.1.9"), _order("1.2.0") == _order("1.2+acme.1")
    (True, True)
    """
    release, _, code = version.partition("+")
    numbers = list(map(int, re.findall(r"\d+", release)))
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers, int(code) if code.isdecimal() else 0


def _content(file: Path) -> bytes | None:
    with contextlib.suppress(OSError):
        return file.read_bytes() or None  # it may be written at the moment
    return None


def off_main_thread(start: Callable[[], Result]) -> Result:
    """The result of ``start``, which starts Spark. PySpark installs its handler of Ctrl-C in the main thread only."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, start).result()


@contextlib.contextmanager
def _handling(numbers: list[signal.Signals], handler: Handler) -> Iterator[None]:
    # Only the main thread may handle signals. A platform's driver may run tasks in another: there a kill ends a run.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _end(number: int, sentence: str) -> None:
    """End the process even if threads still run. The JVM ends when its input is closed."""
    with contextlib.suppress(RuntimeError, OSError):  # the interrupted thread may be printing
        console().show_cursor()
        note(sentence)
    os._exit(_BY_SIGNAL + number)

"""The continuous run of an application, beside the steps."""

from __future__ import annotations

import contextlib
import threading

from kaspr_delta import Application
from tests.continuous import running

# Seconds between two checks whether the run has failed before its first event.
_POLL_SECONDS = 0.1


class ContinuousRun:
    """A continuous run, or none."""

    def __init__(self) -> None:
        self._run = contextlib.ExitStack()
        self._failures: list[Exception] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a run goes on. Raises the error that stopped it."""
        self._raise_failure()
        return self._failures is not None

    def begin(self, app: Application) -> None:
        """Start a run, and wait until it holds its resources. Raises the error that stopped it."""
        started = threading.Event()
        self._failures = self._run.enter_context(running(app, listener=lambda _: started.set()))
        while not started.wait(_POLL_SECONDS):
            self._raise_failure()

    def end(self) -> None:
        """Stop the run, if there is one. Raises the error that stopped it earlier."""
        self._run.close()
        self._raise_failure()
        self._failures = None

    def _raise_failure(self) -> None:
        if self._failures:
            failure, self._failures = self._failures[0], None
            raise failure

"""An application that runs without end, beside the steps."""

from __future__ import annotations

import contextlib
import threading

from kaspr_delta import Application
from tests.continuous import running

# Seconds between two looks whether it has begun.
_LOOK = 0.1


class Following:
    """A run without end, or none."""

    def __init__(self) -> None:
        self._run = contextlib.ExitStack()
        self._failures: list[Exception] | None = None

    @property
    def goes_on(self) -> bool:
        """Whether there is one. Raises what it failed with."""
        self._tell_failure()
        return self._failures is not None

    def begin(self, app: Application) -> None:
        """Let an application run; its resources are held when this ends. Raises what it failed with."""
        started = threading.Event()
        self._failures = self._run.enter_context(running(app, listener=lambda _: started.set()))
        while not started.wait(_LOOK):
            self._tell_failure()

    def end(self) -> None:
        """Stop it, if there is one. Raises what it failed with."""
        self._run.close()
        self._tell_failure()
        self._failures = None

    def _tell_failure(self) -> None:
        if self._failures:
            failure, self._failures = self._failures[0], None
            raise failure

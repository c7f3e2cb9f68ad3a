"""A continuous run of an application, in a thread beside a test, which waits for what it does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from kaspr_delta import Application
from kaspr_delta.runtime.run_events import Listener


@contextmanager
def running(
    app: Application,
    *,
    every: str = "100ms",
    only: Collection[str] = (),
    listener: Listener | None = None,
    restarted: bool = False,
) -> Iterator[list[Exception]]:
    """Run resources, all by default, until the block ends. The list gets the error that stops the run earlier."""
    stop, failures = threading.Event(), list[Exception]()

    def run() -> None:
        try:
            app.run_continuously(stop, every=every, only=only, listener=listener, restarted=restarted)
        except Exception as error:  # noqa: BLE001  the test reports it
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield failures
    finally:
        stop.set()
        thread.join()


def wait_until(holds: Callable[[], object], failures: Collection[Exception] = (), seconds: float = 180) -> None:
    """Wait until a condition holds. Fails if a run has failed, or after this time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert not failures, failures
        assert time.monotonic() < deadline
        time.sleep(0.2)

"""A continuous run of an application, in a thread beside a test."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from kaspr_delta import Application
from kaspr_delta.runtime.run_events import Listener


@contextmanager
def running(
    app: Application, *, every: str = "100ms", only: Collection[str] = (), listener: Listener | None = None
) -> Iterator[list[Exception]]:
    """Run resources, all by default, until the block ends. The list gets the error that stops the run earlier."""
    stop, failures = threading.Event(), list[Exception]()

    def run() -> None:
        try:
            app.run_continuously(stop, every=every, only=only, listener=listener)
        except Exception as error:  # noqa: BLE001  the test reports it
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield failures
    finally:
        stop.set()
        thread.join()

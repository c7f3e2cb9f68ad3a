"""Chooses the receivers of a run's events by the environment, and hands them on in a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Protocol

from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.runtime.run_events import Listener, RunEvent, ignore_event

_log = logging.getLogger(__name__)
# OpenTelemetry's variables that name a receiver, and those of OpenLineage.
_TELEMETRY = (
    *("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
    *("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"),
)
_LINEAGE = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
# Events that wait for a receiver. Further ones are left out.
_MOST = 10_000
# Seconds for which the end of a run waits until the last events are sent.
_PATIENCE = 5.0


class Receiver(Protocol):
    """Receives the events of a run, one after another, each with its time."""

    def take(self, event: RunEvent, at: datetime) -> None:
        """Receive an event."""

    def close(self, *, failed: bool) -> None:
        """Send everything; the run has ended, by an error if it ``failed``."""


@contextlib.contextmanager
def observed(plan: Plan, listener: Listener | None, *, is_test: bool = False) -> Iterator[Listener]:
    """The listener of a run, which hands each event to the given one, and to the receivers that the environment names.

    A run of a fixture is a test: it is no event for them.

    A receiver that does not answer neither delays nor ends the run: what it does not take in time is left out. Raises
    SetupError if the environment names a receiver and its package is missing.
    """
    given = listener or ignore_event
    receivers = [] if is_test else list(_receivers(plan))
    if not receivers:
        yield given
        return
    sender, failed = Sender(receivers), True
    sender.start()

    def listen(event: RunEvent) -> None:
        given(event)
        sender.take(event)

    try:
        yield listen
        failed = False
    finally:
        sender.close(failed=failed)


@dataclass
class Sender:
    """Hands events to receivers in a thread. An error of a receiver is a warning in the log."""

    receivers: list[Receiver]
    most: int = _MOST
    patience: float = _PATIENCE
    _waiting: queue.Queue[tuple[RunEvent, datetime] | bool] = field(init=False)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._waiting = queue.Queue(self.most)
        self._thread = threading.Thread(target=self._send, name="telemetry", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def take(self, event: RunEvent) -> None:
        """Let an event be sent, unless too many wait."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait((event, datetime.now(timezone.utc)))

    def close(self, *, failed: bool) -> None:
        """Let everything be sent, and wait for that, but not for long."""
        with contextlib.suppress(queue.Full):
            self._waiting.put(failed, timeout=self.patience)
        self._thread.join(self.patience)

    def _send(self) -> None:
        while True:
            given = self._waiting.get()
            for receiver in self.receivers:
                try:
                    if isinstance(given, bool):
                        receiver.close(failed=given)
                    else:
                        receiver.take(*given)
                except Exception:  # noqa: BLE001  whatever a receiver's library raises, the run goes on
                    _log.warning("%s did not take an event", type(receiver).__name__, exc_info=True)
            if isinstance(given, bool):
                return


def _receivers(plan: Plan) -> Iterator[Receiver]:
    if _wanted(_TELEMETRY, "OTEL_SDK_DISABLED"):
        with _needed("opentelemetry-sdk"):
            from kaspr_delta.telemetry.open_telemetry import Telemetry
        yield Telemetry.of(plan)
    if _wanted(_LINEAGE, "OPENLINEAGE_DISABLED"):
        with _needed("openlineage-python"):
            from kaspr_delta.telemetry.open_lineage import Lineage
        yield Lineage.of(plan)


def _wanted(names: tuple[str, ...], off: str) -> bool:
    if os.environ.get(off, "").lower() == "true":
        return False
    return any((os.environ.get(name) or "none").lower() != "none" for name in names)


@contextlib.contextmanager
def _needed(package: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise SetupError(f"{package} is not installed: pip install 'kaspr-delta[telemetry]'") from error

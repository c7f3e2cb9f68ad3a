"""Chooses the receivers of a run's events by the environment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.runtime.run_events import Listener, RunEvent, ignore_event

# OpenTelemetry's variables that name a receiver, and those of OpenLineage.
_TELEMETRY = (
    *("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
    *("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"),
)
_LINEAGE = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")


@contextlib.contextmanager
def observed(plan: Plan, listener: Listener | None) -> Iterator[Listener]:
    """The listener of a run, which hands each event to the given one, and to the receivers that the environment names.

    At its end, everything is sent. Raises SetupError if the environment names a receiver and its package is missing.
    """
    receivers: list[Listener] = [] if listener is None else [listener]
    with contextlib.ExitStack() as open_:
        if _wanted(os.environ, _TELEMETRY, "OTEL_SDK_DISABLED"):
            with _needed("opentelemetry-sdk"):
                from kaspr_delta.telemetry.open_telemetry import Telemetry
            receivers.append(open_.enter_context(Telemetry.of(plan)))
        if _wanted(os.environ, _LINEAGE, "OPENLINEAGE_DISABLED"):
            with _needed("openlineage-python"):
                from kaspr_delta.telemetry.open_lineage import Lineage
            receivers.append(open_.enter_context(Lineage.of(plan)))
        yield _to_all(receivers)


def _to_all(receivers: list[Listener]) -> Listener:
    if len(receivers) <= 1:
        return receivers[0] if receivers else ignore_event

    def listen(event: RunEvent) -> None:
        for receiver in receivers:
            receiver(event)

    return listen


def _wanted(environment: Mapping[str, str], names: tuple[str, ...], off: str) -> bool:
    if environment.get(off, "").lower() == "true":
        return False
    return any(environment.get(name, "none").lower() != "none" for name in names)


@contextlib.contextmanager
def _needed(package: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise SetupError(f"{package} is not installed: pip install 'kaspr-delta[telemetry]'") from error

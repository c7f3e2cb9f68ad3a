"""Batches as traces and metrics of OpenTelemetry.

The standard variables say where they go, such as ``OTEL_EXPORTER_OTLP_ENDPOINT`` and ``OTEL_SERVICE_NAME``. A process
whose providers were set before, for example by ``opentelemetry-instrument``, keeps them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import Status, StatusCode, Tracer, set_span_in_context

from kaspr_delta.engine.batch.counters import work_of
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.runtime.failures import short_text
from kaspr_delta.runtime.run_events import BatchDone, Failed, LagSeen, RunEvent
from kaspr_delta.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.util.types import AttributeValue
    from typing_extensions import Self

_NAME = "kaspr_delta"
_STEPS = ("decide", "commit", "fold")
# Milliseconds for which the end of a run waits until everything is sent.
_PATIENCE = 2_000


@dataclass
class Telemetry:
    """Receives the events of a run: a batch is a trace, whose spans are its steps.

    Spans are made when the batch is done, out of the durations of its steps, and end then.
    """

    application: str
    tracer: Tracer
    meter: Meter

    def __post_init__(self) -> None:
        count, seconds = self.meter.create_counter, self.meter.create_histogram
        self._rows_in = count("kaspr.rows.in", "{row}", "Rows and records that batches took up")
        self._rows_out = count("kaspr.rows.out", "{row}", "Records that were emitted, and rows that were written")
        self._letters = count("kaspr.dead_letters", "{event}", "Events and rows that failed")
        self._failures = count("kaspr.failures", "{failure}", "Resources that stopped")
        self._seconds = seconds("kaspr.batch.duration", "s", "The duration of batches")
        self._lag = self.meter.create_gauge("kaspr.lag", "{row}", "Rows and records that were not read yet")

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """The telemetry of an application, through the providers of this process."""
        _set_providers(plan.application_id)
        return cls(plan.application, trace.get_tracer(_NAME, VERSION), metrics.get_meter(_NAME, VERSION))

    def close(self, *, failed: bool) -> None:  # noqa: ARG002  a failure was an event
        """Send what was not sent yet."""
        for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
            if isinstance(provider, TracerProvider | MeterProvider):
                provider.force_flush(_PATIENCE)

    def take(self, event: RunEvent, at: datetime) -> None:
        """Receive an event."""
        about = {"kaspr.application": self.application, "kaspr.resource": str(event.resource)}
        match event:
            case BatchDone():
                self._batch(event, about, at)
            case LagSeen(rows=rows):
                self._lag.set(rows, about)
            case Failed(error=error):
                self._failures.add(1, about)
                span = self.tracer.start_span(
                    f"failure of {event.resource}", Context(), attributes=about, start_time=_nanoseconds(at)
                )
                span.set_status(Status(StatusCode.ERROR, short_text(error)))
                span.end(_nanoseconds(at))

    def _batch(self, event: BatchDone, about: dict[str, str], end: datetime) -> None:
        report = event.report
        self._rows_in.add(report.rows_in, about)
        self._rows_out.add(report.rows_out, about)
        self._letters.add(report.dead_letters, about)
        self._seconds.record(report.seconds, about)
        counts: dict[str, AttributeValue] = {
            "kaspr.batch.checkpoint": event.batch.checkpoint,
            "kaspr.batch.number": event.batch.number,
            "kaspr.rows.in": report.rows_in,
            "kaspr.rows.out": report.rows_out,
            "kaspr.dead_letters": report.dead_letters,
            "kaspr.conflicts": report.conflicts,
        }
        took = work_of(json.loads(report.counts))
        at = end - timedelta(seconds=report.seconds)
        batch = self.tracer.start_span(
            f"batch of {event.resource}", Context(), attributes={**about, **counts}, start_time=_nanoseconds(at)
        )
        for step in _STEPS:
            if step in took:
                span = self.tracer.start_span(
                    step, set_span_in_context(batch, Context()), attributes=about, start_time=_nanoseconds(at)
                )
                at = min(end, at + timedelta(milliseconds=took[step]))
                span.end(_nanoseconds(at))
        batch.end(_nanoseconds(end))


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1_000


def _set_providers(service: str) -> None:
    """Set the providers of the process, unless it has some. The name of the service is the application's id.

    They do not wait for a receiver when the process ends: each run has sent everything.
    """
    named = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: service}
    resource = Resource.create(named)
    spans, numbers = _span_exporter(), _metric_exporter()
    if spans is not None and not isinstance(trace.get_tracer_provider(), TracerProvider):
        tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracing.add_span_processor(BatchSpanProcessor(spans))
        trace.set_tracer_provider(tracing)
    if numbers is not None and not isinstance(metrics.get_meter_provider(), MeterProvider):
        reader = PeriodicExportingMetricReader(numbers)
        metrics.set_meter_provider(MeterProvider([reader], resource, shutdown_on_exit=False))


def _exporter_of(signal: str) -> str:
    """The kind of the exporter of a signal: by default ``otlp`` where an endpoint is named, else none."""
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    default = "otlp" if any(map(os.environ.get, endpoints)) else "none"
    return os.environ.get(f"OTEL_{signal}_EXPORTER") or default


def _span_exporter() -> SpanExporter | None:
    match _exporter_of("TRACES"):
        case "none":
            return None
        case "console":
            return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _metric_exporter() -> MetricExporter | None:
    match _exporter_of("METRICS"):
        case "none":
            return None
        case "console":
            return ConsoleMetricExporter()
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()

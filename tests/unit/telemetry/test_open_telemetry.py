"""Batches as traces and metrics, in memory and as a collector receives them."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timezone
from typing import Any

import pytest

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.counters import work
from kaspr_delta.engine.batch.progress import BatchReport
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.run_events import BatchDone, Failed, LagSeen
from tests.unit.telemetry.collector import collector

sdk = pytest.importorskip("opentelemetry.sdk.trace")

JOIN = ResourceRef("join", "priced")
NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
COUNTS = {work("decide"): 200, work("commit"): 300, work("fold"): 500, work("rows merged"): 7}
DONE = BatchDone(JOIN, BatchId("c1", 7), BatchReport(10, 4, 1, 0, 2, 1.0, json.dumps(COUNTS)))


@pytest.fixture
def received() -> tuple[Any, Any, Any]:
    """The telemetry of an application, its finished spans, and a function that reads its metrics."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from kaspr_delta.telemetry.open_telemetry import Telemetry

    spans, reader, provider = InMemorySpanExporter(), InMemoryMetricReader(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    telemetry = Telemetry("shop", provider.get_tracer("t"), MeterProvider([reader]).get_meter("t"))

    def metrics() -> dict[str, Any]:
        data: Any = reader.get_metrics_data()
        (resource,) = data.resource_metrics
        (scope,) = resource.scope_metrics
        return {one.name: one.data.data_points[0] for one in scope.metrics}

    return telemetry, spans, metrics


def test_a_batch_is_a_trace_with_a_span_for_each_step_one_after_another(received: tuple[Any, Any, Any]) -> None:
    telemetry, finished, _ = received
    telemetry.take(DONE, NOON)
    *steps, batch = finished.get_finished_spans()
    assert [one.name for one in steps] == ["decide", "commit", "fold"]
    assert batch.name == "batch of join/priced"
    assert {one.parent.span_id for one in steps} == {batch.context.span_id}
    edges = [(one.start_time - batch.start_time, one.end_time - batch.start_time) for one in (*steps, batch)]
    assert edges == [(0, 2e8), (2e8, 5e8), (5e8, 1e9), (0, 1e9)]
    assert batch.end_time == NOON.timestamp() * 1e9
    assert batch.attributes["kaspr.batch.number"] == 7
    assert batch.attributes["kaspr.resource"] == "join/priced"
    telemetry.take(DONE, NOON)
    assert finished.get_finished_spans()[-1].context.trace_id != batch.context.trace_id


def test_metrics_sum_the_batches_and_have_the_last_lag(received: tuple[Any, Any, Any]) -> None:
    telemetry, _, metrics = received
    for event in (DONE, DONE, LagSeen(JOIN, 9), LagSeen(JOIN, 3)):
        telemetry.take(event, NOON)
    found = metrics()
    counts = [found[f"kaspr.{name}"].value for name in ("rows.in", "rows.out", "dead_letters", "lag")]
    assert counts == [20, 8, 2, 3]
    assert (found["kaspr.batch.duration"].count, found["kaspr.batch.duration"].sum) == (2, 2.0)
    assert found["kaspr.lag"].attributes == {"kaspr.application": "shop", "kaspr.resource": "join/priced"}


def test_a_failure_is_a_span_with_the_error(received: tuple[Any, Any, Any]) -> None:
    telemetry, finished, metrics = received
    telemetry.take(Failed(JOIN, ValueError("no such column")), NOON)
    (span,) = finished.get_finished_spans()
    assert (span.status.status_code.name, span.status.description) == ("ERROR", "ValueError: no such column")
    assert metrics()["kaspr.failures"].value == 1


RUN = """
from tests.unit.telemetry.test_open_telemetry import DONE
from tests.manifests import plan_of
from kaspr_delta.telemetry import observed

seen = []
with observed(plan_of("shop", "KasprTable/orders: {}"), seen.append) as listener:
    listener(DONE)
assert seen == [DONE]
"""


@pytest.mark.process
def test_a_collector_that_the_environment_names_gets_traces_and_metrics_of_the_application() -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    with collector() as (address, bodies):
        # The command is this test's own.
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", RUN],
            env={"OTEL_EXPORTER_OTLP_ENDPOINT": address, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    traces, metrics = ExportTraceServiceRequest(), ExportMetricsServiceRequest()
    traces.ParseFromString(bodies["/v1/traces"][0])
    metrics.ParseFromString(bodies["/v1/metrics"][0])
    (resource,) = traces.resource_spans
    assert {one.key: one.value.string_value for one in resource.resource.attributes}["service.name"] == "shop-app"
    assert [span.name for span in resource.scope_spans[0].spans] == ["decide", "commit", "fold", "batch of join/priced"]
    names = [one.name for one in metrics.resource_metrics[0].scope_metrics[0].metrics]
    assert "kaspr.rows.in" in names

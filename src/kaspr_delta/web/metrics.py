"""Metrics for Prometheus, by Kaspr's names: the counters of all runs, and those of this server."""

from __future__ import annotations

import socket
from collections import Counter as Counts
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kaspr_delta.engine.batch.counters import LABELS
from kaspr_delta.engine.batch.counters import Metric as Counted
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.runtime.report import Status
from kaspr_delta.version import VERSION

disable_created_metrics()  # type: ignore[no-untyped-call]

_COMMON = ("app_name", "worker_name")
# Kaspr's prefixes of table and topic names in the labels of these metrics.
_PREFIXES = {("table_operations", "table"): "table.", ("topic_messages_sent", "topic"): "topic."}
_HELP = {
    "table_operations": "Keys that functions read, wrote and deleted",
    "messages_received_per_topic": "Records that agents took from a topic",
    "topic_messages_sent": "Records that were put on a topic",
}


@dataclass(eq=False)
class Metrics(Collector):
    """The metrics of ``/metrics``. ``status`` and ``key_counts`` (rows by table) are called at every scrape."""

    plan: Callable[[], Plan]
    status: Callable[[], Status]
    key_counts: Callable[[], dict[str, int]]
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    _worker: str = field(default_factory=socket.gethostname)

    def __post_init__(self) -> None:
        self.codes = Counter(
            "kaspr_http_status_codes", "Answers by their status", (*_COMMON, "status_code"), registry=self.registry
        )
        self.latency = Histogram("kaspr_http_latency", "Seconds until an answer", _COMMON, registry=self.registry)
        self._here: Counts[tuple[str, ...]] = Counts()
        self.registry.register(self)

    def answered(self, status: int, seconds: float) -> None:
        """Count an answer and its seconds."""
        self.codes.labels(*self._labels, str(status)).inc()
        self.latency.labels(*self._labels).observe(seconds)

    def used(self, table: str, operation: str, times: int) -> None:
        """Count operations of a web view on a table."""
        self._here["table_operations", table, operation] += times

    def sent(self, topic: str, records: int) -> None:
        """Count records that a web view or a retry put on a topic."""
        self._here["topic_messages_sent", topic] += records

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def describe(self) -> list[Metric]:
        """Nothing: otherwise registering would read the tables."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics but those of HTTP, as of now."""
        status = self.status()
        yield from self._counted([*status.metrics, *self._counted_here()])
        rows = {(f"table.{table}",): count for table, count in sorted(self.key_counts().items())}
        yield self._family(GaugeMetricFamily, "table_key_count", "Rows of a table", ("table",), rows)
        for name, of, text in _OF_RESOURCES:
            counts = {(str(one.resource),): getattr(one, of) for one in status.resources}
            yield self._family(CounterMetricFamily, f"resource_{name}", text, ("resource",), counts)
        yield self._family(GaugeMetricFamily, "health", "0: in order", (), {(): 0})
        about = {(self.plan().application_id, VERSION, "false"): 1}
        yield self._family(GaugeMetricFamily, "app_info", "About the application", _ABOUT, about)

    def _family(
        self, kind: Callable[..., Any], name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, int]
    ) -> Metric:
        family = kind(f"kaspr_{name}", text, labels=(*_COMMON, *labels))
        for own, value in values.items():
            family.add_metric((*self._labels, *own), value)
        return cast("Metric", family)

    @property
    def _labels(self) -> tuple[str, str]:
        return self.plan().application_id, self._worker

    def _counted_here(self) -> Iterator[Counted]:
        for (name, *labels), times in sorted(self._here.copy().items()):
            yield Counted(name, dict(zip(LABELS[name], labels, strict=True)), times)

    def _counted(self, counted: list[Counted]) -> Iterator[Metric]:
        for name, labels in LABELS.items():
            sums: Counts[tuple[str, ...]] = Counts()
            for one in counted:
                if one.name == name:
                    values = (_PREFIXES.get((name, label), "") + one.labels.get(label, "") for label in labels)
                    sums[tuple(values)] += one.value
            yield self._family(CounterMetricFamily, name, _HELP.get(name, name), labels, sums)
        for total, name in _TOTALS.items():
            times = sum(one.value for one in counted if one.name == name)
            yield self._family(CounterMetricFamily, total, _HELP[name], (), {(): times})


_OF_RESOURCES = (
    ("rows_in", "rows_in", "Rows and records that were taken up"),
    ("rows_out", "rows_out", "Records that were emitted, and rows that were written"),
    ("dead_letters", "failures", "Failed events and rows, also those whose dead letter a retry removed"),
)
_ABOUT = ("group_id", "kaspr_version", "kms_enabled")
_TOTALS = {"messages_received": "messages_received_per_topic", "total_sent_messages": "topic_messages_sent"}

"""Counters by Kaspr's names, with their labels in one text: what batches write down, and what they add up to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from kaspr_delta.storage.statistics import NativeFailure

# The labels of each metric, in the order in which a counter's name holds their values.
LABELS = {
    "table_operations": ("table", "operation"),
    "messages_received_per_topic": ("topic",),
    "topic_messages_sent": ("topic",),
}


_WORK = "work"
_NATIVE_FAILURE = "native_failure"
_NO_METRICS = frozenset({_WORK, _NATIVE_FAILURE})


@dataclass(frozen=True, slots=True, order=True)
class Metric:
    """The value of a counter, summed over all batches that were committed."""

    name: str
    labels: Mapping[str, str]
    value: int


def counter(metric: str, *labels: str) -> str:
    """The name of a counter: a metric with the values of its labels."""
    return json.dumps([metric, *labels])


def work(name: str) -> str:
    """The name under which a batch notes what it cost. Such counters stand beside Kaspr's, and are no metrics."""
    return counter(_WORK, name)


def work_of(counts: Mapping[str, int]) -> dict[str, int]:
    """What a batch cost, among what it counted."""
    found = [(json.loads(name), times) for name, times in counts.items()]
    return {name: times for (kind, name, *_), times in found if kind == _WORK}


def failed_natively(failures: Mapping[NativeFailure, int]) -> dict[str, int]:
    """Counters of the native operations that failed in a batch."""
    return {counter(_NATIVE_FAILURE, *failure): times for failure, times in failures.items()}


def native_failures(summed: Mapping[str, int]) -> dict[NativeFailure, int]:
    """The native operations that failed, among counters by their names, with how often each did."""
    found = [(json.loads(name), times) for name, times in sorted(summed.items())]
    return {NativeFailure(*told): times for (kind, *told), times in found if kind == _NATIVE_FAILURE}


def as_metrics(summed: Mapping[str, int]) -> list[Metric]:
    """Counters by their names as metrics, sorted."""
    found = [(json.loads(name), times) for name, times in summed.items()]
    found = [(name, times) for name, times in found if name[0] not in _NO_METRICS]
    return [
        Metric(name, dict(zip(LABELS.get(name, ()), labels, strict=False)), times)
        for (name, *labels), times in sorted(found)
    ]

"""Counters by Kaspr's names, with their labels in one text: what batches write down, and what they add up to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

# The labels of each metric, in the order in which a counter's name holds their values.
LABELS = {
    "table_operations": ("table", "operation"),
    "messages_received_per_topic": ("topic",),
    "topic_messages_sent": ("topic",),
}


@dataclass(frozen=True, slots=True, order=True)
class Metric:
    """The value of a counter, summed over all batches that were committed."""

    name: str
    labels: Mapping[str, str]
    value: int


def counter(metric: str, *labels: str) -> str:
    """The name of a counter: a metric with the values of its labels."""
    return json.dumps([metric, *labels])


def as_metrics(summed: Mapping[str, int]) -> list[Metric]:
    """Counters by their names as metrics, sorted."""
    found = [(json.loads(name), times) for name, times in summed.items()]
    return [
        Metric(name, dict(zip(LABELS.get(name, ()), labels, strict=False)), times)
        for (name, *labels), times in sorted(found)
    ]

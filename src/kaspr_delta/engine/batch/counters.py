"""Counters of batches, by Kaspr's names. A counter's name holds the metric and the values of its labels in one text."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from kaspr_delta.storage.layout import DELAY
from kaspr_delta.storage.statistics import NativeFailure

# The labels of each metric, in the order of their values in a counter's name.
LABELS = {
    "table_operations": ("table", "operation"),
    "messages_received_per_topic": ("topic",),
    "topic_messages_sent": ("topic",),
}


_WORK = "work"
_NATIVE_FAILURE = "native_failure"
_NO_METRICS = frozenset({_WORK, _NATIVE_FAILURE, json.loads(DELAY)[0]})


@dataclass(frozen=True, slots=True)
class Metric:
    """A counter, summed over all committed batches."""

    name: str
    labels: Mapping[str, str]
    value: int


def counter(metric: str, *labels: str) -> str:
    """The name of a counter: JSON text of a metric and the values of its labels."""
    return json.dumps([metric, *labels])


def work(name: str) -> str:
    """The name of a counter for a cost of a batch. It is stored beside Kaspr's counters, but is no metric."""
    return counter(_WORK, name)


def work_of(counts: Mapping[str, int]) -> dict[str, int]:
    """The costs of a batch by name, out of all its counters."""
    found = [(json.loads(name), times) for name, times in counts.items()]
    return {names[0]: times for (kind, *names), times in found if kind == _WORK}


def failed_natively(failures: Mapping[NativeFailure, int]) -> dict[str, int]:
    """Counters of the native operations that failed in a batch."""
    return {counter(_NATIVE_FAILURE, *failure): times for failure, times in failures.items()}


def native_failures(summed: Mapping[str, int]) -> dict[NativeFailure, int]:
    """How often each native operation failed, out of all counters by name."""
    found = [(json.loads(name), times) for name, times in sorted(summed.items())]
    return {NativeFailure(*failure): times for (kind, *failure), times in found if kind == _NATIVE_FAILURE}


def as_metrics(summed: Mapping[str, int]) -> list[Metric]:
    """Return counters, given by name, as sorted metrics."""
    found = [(json.loads(name), times) for name, times in summed.items()]
    found = [(name, times) for name, times in found if name[0] not in _NO_METRICS]
    return [
        Metric(name, dict(zip(LABELS.get(name, ()), labels, strict=False)), times)
        for (name, *labels), times in sorted(found)
    ]


@dataclass
class BatchTiming:
    """The steps of one batch. Their ``milliseconds`` are counters, named by ``work``.

    A wait between two steps counts for neither of them.
    """

    milliseconds: dict[str, int] = field(default_factory=dict, init=False)
    _since: float = field(default_factory=time.monotonic, init=False)

    @property
    def seconds(self) -> float:
        return sum(self.milliseconds.values()) / 1_000

    def begin(self) -> None:
        """Begin a step now, not at the end of the one before."""
        self._since = time.monotonic()

    def done(self, step: str) -> None:
        """End a step, or a part of it."""
        now, name = time.monotonic(), work(step)
        self.milliseconds[name] = self.milliseconds.get(name, 0) + round((now - self._since) * 1_000)
        self._since = now

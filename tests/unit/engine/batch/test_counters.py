from __future__ import annotations

from kaspr_delta.engine.batch.counters import Metric, as_metrics, counter, native_failures, work, work_of
from kaspr_delta.storage.layout import DELAY


def test_the_work_of_a_batch_is_not_a_metric() -> None:
    counts = {work("fold"): 1_200, counter("messages_received_per_topic", "raw-orders"): 3}
    assert as_metrics(counts) == [Metric("messages_received_per_topic", {"topic": "raw-orders"}, 3)]
    assert work_of(counts) == {"fold": 1_200}


def test_a_delay_is_neither_a_metric_nor_a_cost() -> None:
    counts = {DELAY: 7, work("fold"): 3, counter("topic_messages_sent", "t"): 2}
    assert counter("delay", "seconds") == DELAY
    assert work_of(counts) == {"fold": 3}
    assert [metric.name for metric in as_metrics(counts)] == ["topic_messages_sent"]
    assert native_failures(counts) == {}

from __future__ import annotations

from kaspr_delta.engine.batch.counters import Metric, as_metrics, counter, work, work_of


def test_the_work_of_a_batch_is_not_a_metric() -> None:
    counts = {work("fold"): 1_200, counter("messages_received_per_topic", "raw-orders"): 3}
    assert as_metrics(counts) == [Metric("messages_received_per_topic", {"topic": "raw-orders"}, 3)]
    assert work_of(counts) == {"fold": 1_200}

from __future__ import annotations

from pathlib import Path

from kaspr_delta.jobs.work import work_of
from tests.manifests import plan_of_bundle


def test_a_bound_topic_is_a_unit_of_work_before_readers_or_after_writers() -> None:
    work = {unit.key: unit for unit in work_of(plan_of_bundle("kafka-orders"))}
    assert work["topic_raw-orders"].after == ()
    assert work["agent_ingest-orders"].after == ("topic_raw-orders",)
    assert work["topic_enriched-orders"].after == ("agent_process-enriched-orders",)
    assert work["topic_enriched-orders"].description == "to Kafka topic enriched-orders at localhost:9092"
    assert Path(work["topic_raw-orders"].location.file).name == "app.yaml"

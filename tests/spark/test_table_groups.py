"""Agents that share a table of a catalog lose no update, also in the processes of Connect, which share no lock."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaspr_delta import Application
from tests.continuous import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGENT = """
---
apiVersion: kaspr.io/v1alpha1
kind: KasprAgent
metadata: {{name: count-{topic}, labels: {{kaspr.io/app: turns}}}}
spec:
  input: {{topic: {{name: {topic}}}}}
  processors:
    pipeline: [count]
    operations:
      - name: count
        tables: [{{name: totals, paramName: totals}}]
        map:
          python: |
            import time

            def count(value, totals):
                time.sleep(0.05)
                totals["all"] += 1
"""
TOTALS = """
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {name: totals, labels: {kaspr.io/app: turns}}
spec: {defaultSelector: {python: "def default(): return int"}}
"""
TOPICS = ("left", "right")


@pytest.fixture
def app(spark: SparkSession, tmp_path: Path, catalog: str) -> Application:
    """An application on tables of a catalog. In a folder, locks would bind all processes of the machine."""
    (tmp_path / "turns.yaml").write_text(TOTALS + "".join(AGENT.format(topic=topic) for topic in TOPICS))
    return Application.open(tmp_path / "turns.yaml", warehouse=catalog, spark=spark)


def produce(app: Application, count: int) -> None:
    for topic in TOPICS:
        app.topic(topic).produce([{"value": number} for number in range(count)])


@pytest.mark.slow
def test_agents_that_share_a_table_lose_no_count(app: Application) -> None:
    for number in range(1, 3):
        produce(app, 20)
        app.run()
        assert app.table("totals").to_dict() == {"all": 40 * number}


def test_agents_that_share_a_table_lose_no_count_in_a_continuous_run(app: Application) -> None:
    with running(app) as failures:
        for number in range(1, 3):
            produce(app, 10)
            wait_for(app, 20 * number, failures)


def wait_for(app: Application, total: int, failures: list[Exception]) -> None:
    deadline = time.monotonic() + 180
    while app.table("totals").to_dict() != {"all": total}:
        assert not failures
        assert time.monotonic() < deadline, app.table("totals").to_dict()
        time.sleep(0.5)

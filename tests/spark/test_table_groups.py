"""Agents that share a table of a catalog lose no update, also in the processes of Connect, which share no lock."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from tests.connect import ON_CONNECT
from tests.continuous import running, wait_until
from tests.manifests import opened

AGENT = """
KasprAgent/count-{topic}:
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
KasprTable/totals: {defaultSelector: {python: "def default(): return int"}}
"""
TOPICS = ("left", "right")


@pytest.fixture
def app(spark: SparkSession, tmp_path: Path, catalog: str) -> Application:
    """An application on tables of a catalog. In a folder, locks would bind all processes of the machine."""
    agents = [AGENT.format(topic=topic) for topic in TOPICS]
    return opened(spark, tmp_path, "turns", TOTALS + "".join(agents), catalog)


def produce(app: Application, count: int) -> None:
    for topic in TOPICS:
        app.topic(topic).produce([{"value": number} for number in range(count)])


@pytest.mark.skipif(ON_CONNECT not in os.environ, reason="test_streams_of_a_catalog.py has such agents, too")
def test_agents_that_share_a_table_lose_no_count(app: Application) -> None:
    produce(app, 10)
    app.run()
    assert has_total(app, 20)


@pytest.mark.slow
def test_agents_that_share_a_table_lose_no_count_in_a_continuous_run(app: Application) -> None:
    with running(app) as failures:
        for total in (20, 40):
            produce(app, 10)
            wait_until(partial(has_total, app, total), failures)


def has_total(app: Application, total: int) -> bool:
    return app.table("totals").to_dict() == {"all": total}

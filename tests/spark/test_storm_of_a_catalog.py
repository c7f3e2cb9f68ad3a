"""Many changes, and several writers at once, in tables of a catalog."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from tests.properties.shown import JOINS, MANIFESTS, JoinReader
from tests.properties.test_storm import storm

WRITERS = 3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]


def test_after_a_storm_results_and_channels_equal_the_join_of_the_tables(spark: SparkSession, catalog: str) -> None:
    assert storm(spark, catalog, changes=1_500, batches=3) == 0


def test_concurrent_writers_and_runs_lose_no_change(spark: SparkSession, catalog: str) -> None:
    app = Application.open(MANIFESTS, warehouse=catalog, spark=spark)
    app.table("products").put({f"P{number}": {"n": number} for number in range(4)})

    def write(writer: int) -> None:
        for number in range(4):
            app.table("orders").put({f"O{writer}-{number}": {"fk": f"P{number}", "n": writer}})
            app.table("products").put({f"P{writer}": {"n": 10 * writer + number}})

    with ThreadPoolExecutor(WRITERS) as writers:
        writing = [writers.submit(write, writer) for writer in range(WRITERS)]
        app.run()
        for one in writing:
            one.result()
    app.run()
    assert app.delta.read(spark, "orders").count() == 4 * WRITERS
    assert sum(JoinReader(app, join).differing() for join in JOINS) == 0

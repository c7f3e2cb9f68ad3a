"""The numbers in docs/cost-of-a-batch.md: Spark jobs by step, and files that are read."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from benchmarks.data import Size
from benchmarks.spark_work import SparkWork
from benchmarks.warehouses import Orders, Running
from kaspr_delta.engine.batch import folding
from kaspr_delta.engine.batch.folding import Folding
from kaspr_delta.engine.batch.log import Log
from tests.connect import ON_CONNECT
from tests.folders import delta_rs

DOCUMENT = Path(__file__).parents[2] / "docs" / "cost-of-a-batch.md"
MOST_JOBS_UNTIL_READABLE = 12

pytestmark = pytest.mark.skipif(ON_CONNECT in os.environ, reason="a server tells nobody its jobs")


def documented_jobs() -> dict[str, int]:
    """The most jobs of each step, from the document."""
    rows = re.findall(r"(?m)^\| \*\*(\w+)\*\* .*\| (\d+) \|$", DOCUMENT.read_text())
    return {step: int(jobs) for step, jobs in rows}


class Steps:
    """Counts the jobs of each step of a batch. The calls of three functions mark where steps begin."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.work: SparkWork | None = None
        self.begun: dict[str, int] = {}
        self._note(patched, Log, "append", "commit")
        self._note(patched, Folding, "fold", "fold")
        self._note(patched, folding, "record_progress", "progress")

    def _note(self, patched: pytest.MonkeyPatch, where: Any, method: str, step: str) -> None:
        called: Callable[..., Any] = getattr(where, method)

        def noted(*arguments: Any, **named: Any) -> Any:
            if self.work is not None:
                self.begun[step] = self.work.job_count
            return called(*arguments, **named)

        patched.setattr(where, method, noted)

    @property
    def jobs(self) -> dict[str, int]:
        assert self.work is not None
        first, second, third, last = (
            self.begun["commit"],
            self.begun["fold"],
            self.begun["progress"],
            self.work.job_count,
        )
        return {"decide": first, "commit": second - first, "fold": third - second, "progress": last - third}


WriteAndWait = Callable[[str, str, dict[str, Any]], SparkWork]


@contextmanager
def continuous_join(spark: SparkSession, orders: Orders) -> Iterator[WriteAndWait]:
    """Run a join continuously. Yields a function that writes a row, without a Spark job, and waits for its batch.

    The function returns the work of Spark.
    """
    orders.load()
    work = SparkWork(spark)
    with orders.running() as running:

        def write_and_wait(table: str, key: str, value: dict[str, Any]) -> SparkWork:
            rows = {"key": [json.dumps(key)], "value": [json.dumps(value)], "timestamp": [datetime.now(timezone.utc)]}
            running.reports.clear()
            work.restart()
            delta_rs(orders.app.delta.namespace).append(table, pa.table(rows))
            wait(running)
            return work

        yield write_and_wait


def wait(running: Running) -> None:
    deadline = time.monotonic() + 120
    while not running.reports and not running.failures and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running.failures == []
    assert sum(report.rows_in for report in running.reports) == 1


@pytest.mark.further
def test_a_batch_of_one_row_takes_at_most_the_documented_spark_jobs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = documented_jobs()
    with continuous_join(spark, Orders.filled(tmp_path / "wh", Size(300, 30))) as write_and_wait:
        write_and_wait("orders", "O-new", {"product_id": "P000001"})  # the first batch reads the logs of the tables
        steps = Steps(monkeypatch)
        for number in range(2):
            steps.work = SparkWork(spark)
            write_and_wait("orders", f"O-{number}", {"product_id": "P000001", "quantity": number})
            found = steps.jobs
            assert {step: jobs for step, jobs in found.items() if jobs > most[step]} == {}, found
    assert most["decide"] + most["commit"] <= MOST_JOBS_UNTIL_READABLE


@pytest.mark.slow
def test_a_look_up_reads_no_file_that_cannot_hold_the_key(spark: SparkSession, tmp_path: Path) -> None:
    """As few files are read of 1,000,000 rows as of 100,000. Files have ranges of keys, as after ZORDER BY (key)."""
    few, many = 10, 100
    read = {}
    for files in (few, many):
        orders = Orders.filled(tmp_path / str(files), Size(files * 10_000, 1_000))
        ordered = orders.app.delta.read(spark, "orders").repartitionByRange(files, "key").localCheckpoint()
        orders.app.delta.replace(spark, ordered, "orders")
        with continuous_join(spark, orders) as write_and_wait:
            read[files] = write_and_wait("orders", "O000000123-new", {"product_id": "P000001"}).files_read
    of_orders = {files: sum(n for place, n in of.items() if place.endswith(".orders")) for files, of in read.items()}
    assert of_orders[few] == of_orders[many] <= 3, read

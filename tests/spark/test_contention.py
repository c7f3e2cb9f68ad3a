"""Several writers of one table lose nothing, and a resource that already runs is not started again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import AlreadyRunningError, Application
from kaspr_delta.storage.layout import RESULT
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import open_tables
from tests.continuous import running, wait_until
from tests.spark.channels import last_values

PROCESSES = 2


@pytest.mark.slow
@pytest.mark.parametrize("commits", [5, pytest.param(500, marks=pytest.mark.timeout(1_800))])
def test_contending_processes_lose_no_commit(spark: SparkSession, tmp_path: Path, commits: int) -> None:
    committer = Path(__file__).with_name("committer.py")
    running = [
        subprocess.Popen([sys.executable, str(committer), str(tmp_path), f"process-{n}", str(commits)])  # noqa: S603
        for n in range(PROCESSES)
    ]
    assert [process.wait() for process in running] == [0] * PROCESSES

    delta = open_tables(Warehouse(str(tmp_path)).namespace("contended"))
    delta.create_schema(spark)
    delta.create(spark, "rows", RESULT)
    keys = [row["key"] for row in delta.read(spark, "rows").select("key").collect()]
    assert len(keys) == len(set(keys)) == PROCESSES * commits
    assert delta.newest(spark, "rows").version == PROCESSES * commits


def test_a_running_resource_is_not_started_again_but_records_can_be_produced(
    spark: SparkSession, tmp_path: Path
) -> None:
    manifests = Path(__file__).parents[2] / "bundles" / "order-system"
    app = Application.open(manifests, warehouse=tmp_path, spark=spark)
    with app.delta.namespace.resource_lock("agent/ingest-orders"):
        assert app.topic("raw-orders").produce([{"key": "O1", "value": {}}]) == 1
        with pytest.raises(AlreadyRunningError, match="agent/ingest-orders already runs"):
            app.run()


@pytest.mark.slow
def test_a_run_follows_foreign_writers_and_compaction_of_its_sources(spark: SparkSession, tmp_path: Path) -> None:
    manifests = Path(__file__).parent / "applications" / "inner-and-left.yaml"
    app = Application.open(manifests, warehouse=tmp_path, spark=spark)
    app.table("products").put({f"P{n}": {"n": 0} for n in range(4)})
    app.table("orders").put({f"O{n}": {"fk": f"P{n % 4}", "n": n} for n in range(40)})
    with running(app, only=["join/left"]) as failures:
        for number in range(1, 4):
            app.sql(f"""UPDATE products SET value = '{{"n":{number}}}' WHERE key = '"P{number}"'""")  # noqa: S608
            app.sql("OPTIMIZE orders")
            app.sql(f"""DELETE FROM orders WHERE key = '"O{number}"'""")  # noqa: S608
            app.sql("OPTIMIZE products")
        products = app.table("products").to_dict()
        expected = {key: {"left": row, "right": products[row["fk"]]} for key, row in app.table("orders").rows()}
        assert len(expected) == 37
        wait_until(lambda: last_values(app.channel("left-channel").records()) == expected, failures)
    assert not failures
    app.run(only=["join/left"])
    assert app.join("left").to_dict() == expected
    assert last_values(app.channel("left-channel").records()) == expected

"""Order enrichment on a standalone cluster of two workers, over a bucket."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from typing import Any

import pytest

from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import folder_tables
from tests.cluster.standalone import Cluster
from tests.cluster.user import User

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(3_600)]

# More orders than a batch may have whose functions run on the driver.
ORDERS, PRODUCTS = 30_000, 400


@pytest.fixture(scope="module")
def done(user: User) -> User:
    """The user, once the steps of the page are done, with few cores for each driver."""
    user.follow("From the laptop in ten steps")
    file = user.folder / "conf" / "spark-defaults.conf"
    file.write_text(f"{file.read_text()}spark.cores.max 2\nspark.executor.cores 1\n")
    return user


def generated(user: User, *words: str) -> list[dict[str, Any]]:
    """Records of the bundle's generator."""
    printed = user.does(f"python bundles/order-system/generate.py {' '.join(words)}")
    return [json.loads(line) for line in printed.splitlines()]


def enriched(user: User) -> list[dict[str, Any]]:
    """The records of the enriched topic so far."""
    return [json.loads(line) for line in user.does("kaspr-delta consume enriched-orders").splitlines()]


def totals(orders: list[dict[str, Any]], products: list[dict[str, Any]]) -> Counter[tuple[str, float]]:
    """The orders with their totals, computed here."""
    prices = {one["key"]: one["value"]["price"] for one in products}
    values = (one["value"] for one in orders)
    return Counter((one["order_id"], prices[one["product_id"]] * one["quantity"]) for one in values)


def received(records: list[dict[str, Any]]) -> Counter[tuple[str, float]]:
    return Counter((one["key"], one["value"]["total"]) for one in records)


def ready(seed: int, user: User) -> Counter[tuple[str, float]]:
    """Produce orders of a seed under keys of their own, and return them with their totals."""
    products = generated(user, "products", f"--count {PRODUCTS}")
    orders = generated(user, "orders", f"--count {ORDERS} --products {PRODUCTS} --seed {seed}")
    for one in orders:
        one["key"] = one["value"]["order_id"] = f"{seed}-{one['key']}"
    file = user.folder / f"{seed}.jsonl"
    file.write_text("".join(f"{json.dumps(one)}\n" for one in orders))
    user.does(f"kaspr-delta produce raw-orders {file}")
    return totals(orders, products)


def test_the_steps_of_the_page_enrich_every_order_once_and_functions_run_on_workers(
    done: User, cluster: Cluster
) -> None:
    products = generated(done, "products", f"--count {PRODUCTS}")
    orders = generated(done, "orders", f"--count {ORDERS} --products {PRODUCTS}")
    assert received(enriched(done)) == totals(orders, products)
    logs = cluster.logs()
    assert "Starting Python task execution" in logs
    assert str(cluster.folder) in logs  # the environment that the workers unpacked
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in logs


def test_an_executor_and_a_driver_that_die_lose_nothing_and_repeat_nothing(done: User, cluster: Cluster) -> None:
    before = received(enriched(done))
    expected = ready(2, done)
    tables = folder_tables(Warehouse(done.exported["KASPR_DELTA_WAREHOUSE"]).namespace("order_system"))
    assert tables is not None
    head = tables.head("log__ingest_orders")
    assert head is not None
    with done.started("kaspr-delta run") as driver:
        cluster.kill_an_executor()
        while (now := tables.head("log__ingest_orders")) is None or now.version == head.version:
            assert driver.poll() is None
            time.sleep(0.1)
        cluster.kill_an_executor()
        os.killpg(driver.pid, signal.SIGKILL)
    with done.started("kaspr-delta run") as one, done.started("kaspr-delta run") as other:
        outputs = [process.communicate()[0] for process in (one, other)]
    assert 0 in (one.returncode, other.returncode), outputs
    done.does("kaspr-delta run")
    assert received(enriched(done)) - before == expected


def test_spark_submit_runs_the_application(done: User) -> None:
    before = received(enriched(done))
    expected = ready(3, done)
    jar = done.does('python -c "from kaspr_delta.storage.stores import LOG_STORE; print(LOG_STORE)"').strip()
    packages = (
        "io.delta:delta-spark_4.2_2.13:4.4.0,org.apache.hadoop:hadoop-aws:3.5.0,software.amazon.awssdk:s3:2.35.4,"
        "software.amazon.awssdk:s3-transfer-manager:2.35.4,software.amazon.awssdk:sts:2.35.4"
    )
    file = done.folder / "conf" / "spark-defaults.conf"
    given = file.read_text()
    file.write_text(
        f"{given}spark.jars.packages {packages}\nspark.jars.excludes software.amazon.awssdk:bundle\nspark.jars {jar}\n"
        f"spark.pyspark.driver.python {done.does('which python')}"
    )
    try:
        done.follow("spark-submit")
    finally:
        file.write_text(given)
    assert received(enriched(done)) - before == expected


@pytest.mark.parametrize(
    ("seed", "setting", "reason"),
    [
        (4, "spark.pyspark.python /usr/bin/python3", "the workers cannot run Python functions"),
        (5, "spark.executor.memory 64g", "no worker of the cluster ran a task within 120 s"),
    ],
)
def test_workers_that_cannot_do_the_work_end_the_start_with_a_sentence(
    done: User, seed: int, setting: str, reason: str
) -> None:
    ready(seed, done)
    file = done.folder / "conf" / "spark-defaults.conf"
    given = file.read_text()
    file.write_text(f"{given}{setting}\n")
    try:
        with done.started("kaspr-delta run 2>&1") as process:
            printed = process.communicate()[0]
    finally:
        file.write_text(given)
    assert process.returncode == 1
    assert reason in printed
    assert "Traceback" not in printed

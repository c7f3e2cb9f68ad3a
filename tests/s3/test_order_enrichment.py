"""The application of the demo in a bucket, by its commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import folder_tables
from tests.s3.conftest import SECRET

BUNDLE = Path(__file__).parents[2] / "bundles" / "order-system"


def program(warehouse: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "kaspr_delta", *words, "--warehouse", warehouse]


def kaspr_delta(warehouse: str, *words: str, given: str = "") -> str:
    """The output of a command over a warehouse, which tells no secret."""
    return output(program(warehouse, *words), given)


def output(command: list[str], given: str = "") -> str:
    """The output of a program, which tells no secret."""
    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(  # noqa: S603
        command, input=given, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    return done.stdout


def killed_after_its_first_commit(warehouse: str) -> None:
    """A run that is killed, with its JVM, once an agent has committed a batch."""
    tables = folder_tables(Warehouse(warehouse).namespace("order_system"))
    assert tables is not None
    with subprocess.Popen(program(warehouse, "run"), start_new_session=True, stderr=subprocess.DEVNULL) as process:  # noqa: S603
        while (head := tables.head("log__ingest_orders")) is None or head.version < 2:
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)


def generated(*words: str) -> str:
    """Records of the bundle's generator."""
    generator = [sys.executable, str(BUNDLE / "generate.py"), *words]
    return subprocess.run(generator, capture_output=True, text=True, check=True).stdout  # noqa: S603


@pytest.mark.slow
@pytest.mark.spark
def test_in_a_bucket_orders_are_enriched_once_also_after_a_kill_and_follow_a_price(
    warehouse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # of the log
    kaspr_delta(warehouse, "apply", "-f", str(BUNDLE))
    kaspr_delta(warehouse, "produce", "raw-products", given=generated("products", "--count", "4"))
    kaspr_delta(warehouse, "produce", "raw-orders", given=generated("orders", "--count", "9", "--products", "4"))
    killed_after_its_first_commit(warehouse)
    kaspr_delta(warehouse, "run")
    row = json.loads(kaspr_delta(warehouse, "table", "orders-products-join", "get", "O1"))["value"]
    product = row["right"] | {"price": 9.5}
    changed = json.dumps({"key": row["left"]["product_id"], "value": product})
    kaspr_delta(warehouse, "produce", "raw-products", given=changed)
    kaspr_delta(warehouse, "run")
    assert json.loads(kaspr_delta(warehouse, "table", "orders-products-join", "get", "O1"))["value"]["right"] == product
    enriched = [json.loads(line) for line in kaspr_delta(warehouse, "consume", "enriched-orders").splitlines()]
    orders = json.loads(f"[{','.join(kaspr_delta(warehouse, 'table', 'orders', 'dump').splitlines())}]")
    again = [one["key"] for one in orders if one["value"]["product_id"] == product["product_id"]]
    assert sorted(one["key"] for one in enriched) == sorted([*(one["key"] for one in orders), *again])
    assert [one["value"]["unit_price"] for one in enriched if one["key"] == "O1"][-1] == 9.5
    assert "join/orders-products-join" in kaspr_delta(warehouse, "status")
    assert SECRET not in (tmp_path / "kaspr-delta" / "spark.log").read_text()

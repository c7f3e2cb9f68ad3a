"""The command line as a user types it, on one warehouse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from kaspr_delta.cli import application
from kaspr_delta.errors import NotFoundError, UsageError
from tests.manifests import manifests

ROOT = Path(__file__).parents[2]
MANIFESTS = str(ROOT / "bundles" / "order-system")


COPY = """
KasprAgent/copy:
  input: {topic: {name: raw-orders}}
  output: {topics: [{name: copied-orders, keySelector: {python: "def key(value): return value['order_id']"}}]}
  processors:
    pipeline: [same]
    operations: [{name: same, map: {python: "def same(value): return {**value, 'order_id': context['event'].key}"}}]
"""


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:  # noqa: ARG001  started here
    """A warehouse on which commands loaded data and ran the application."""
    folder = tmp_path_factory.mktemp("cli")
    orders = folder / "orders.jsonl"
    value = {"order_id": "O1", "product_id": "P1", "quantity": 2}
    orders.write_text(json.dumps({"key": "O1", "value": value, "timestamp": 5, "headers": {"a": "b"}}) + "\n\n")
    products = folder / "products.jsonl"
    products.write_text('{"key": "P1", "value": {"name": "Widget", "price": 2.5}}\n')
    place = str(folder / "wh")
    kaspr("apply", "-f", MANIFESTS, "--warehouse", place)
    kaspr("produce", "raw-orders", str(orders), "--warehouse", place)
    kaspr("--warehouse", place, "table", "products", "load", str(products))
    kaspr("run", "--warehouse", place)
    return place


def kaspr(*arguments: str, text: str | None = None) -> Result:
    result = CliRunner().invoke(application, arguments, input=text, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_consume_prints_a_topic_and_a_channel_in_order(warehouse: str) -> None:
    (enriched,) = lines(kaspr("consume", "enriched-orders", "--warehouse", warehouse))
    assert enriched["key"] == "O1"
    assert enriched["value"]["total"] == 5
    (joined,) = lines(kaspr("consume", "orders-products-joined", "--warehouse", warehouse))
    assert joined["value"]["right"] == {"name": "Widget", "price": 2.5}
    (raw,) = lines(kaspr("consume", "raw-orders", "--max", "1", "--warehouse", warehouse))
    assert (raw["timestamp"], raw["headers"]) == (5, {"a": "b"})


def test_table_gets_and_dumps_tables_and_results(warehouse: str) -> None:
    (row,) = lines(kaspr("table", "products", "get", "P1", "--warehouse", warehouse))
    assert row == {"key": "P1", "value": {"name": "Widget", "price": 2.5}}
    (joined,) = lines(kaspr("table", "orders-products-join", "dump", "--warehouse", warehouse))
    assert joined["value"]["left"]["quantity"] == 2
    missing = CliRunner().invoke(application, ["table", "orders", "get", "nobody", "--warehouse", warehouse])
    assert missing.exit_code == 1
    assert missing.stdout == ""


def test_errors_suggest_a_similar_name_or_the_right_command(warehouse: str) -> None:
    with pytest.raises(NotFoundError, match="did you mean 'raw-orders'"):
        kaspr("produce", "raw-order", "--warehouse", warehouse, text='{"key": 1, "value": 2}')
    with pytest.raises(NotFoundError, match="did you mean 'join/orders-products-join'"):
        kaspr("run", "--only", "join/orders-product-join", "--warehouse", warehouse)
    with pytest.raises(UsageError, match="write the tables that it joins"):
        kaspr("table", "orders-products-join", "load", os.devnull, "--warehouse", warehouse)


def test_dead_letters_prints_nothing_and_run_prints_caught_up(warehouse: str) -> None:
    assert lines(kaspr("dead-letters", "--warehouse", warehouse)) == []
    assert "caught up" in kaspr("run", "--warehouse", warehouse).output


@pytest.mark.slow
def test_the_demo_shows_both_waves(tmp_path: Path) -> None:
    _assert_both_waves(kaspr("demo", "--warehouse", str(tmp_path)).stdout)


@pytest.mark.slow
def test_the_demo_runs_as_a_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kaspr_delta", "demo", "--warehouse", str(tmp_path)]
    _assert_both_waves(subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout)  # noqa: S603


def _assert_both_waves(printed: str) -> None:
    assert "orders-products-join: 300 rows" in printed
    assert "its product changed" in printed
    assert "the order was deleted" in printed


@pytest.mark.slow
def test_a_continuous_run_takes_up_records_and_ends_on_sigterm(tmp_path: Path, warehouse: str) -> None:
    """Records are produced during the run, from another process. SIGTERM ends the run with exit code 0."""
    log = tmp_path / "log"
    command = [sys.executable, "-m", "kaspr_delta", "run", "--continuous", "--every", "1s", "--warehouse", warehouse]
    with log.open("w") as output:
        running = subprocess.Popen(command, stderr=output, stdout=output)  # noqa: S603
    try:
        order = {"key": "O7", "value": {"order_id": "O7", "product_id": "P1", "quantity": 1}}
        kaspr("produce", "raw-orders", "--warehouse", warehouse, text=json.dumps(order))
        deadline = time.monotonic() + 400
        while "O7" not in kaspr("consume", "enriched-orders", "--warehouse", warehouse).stdout:
            assert time.monotonic() < deadline, log.read_text()
            assert running.poll() is None, log.read_text()
            time.sleep(1)
        # A resource that is applied during the run is taken up too.
        (tmp_path / "copy.yaml").write_text(manifests("order-system", COPY))
        kaspr("apply", "-f", str(tmp_path / "copy.yaml"), "--warehouse", warehouse)
        kaspr("produce", "raw-orders", "--warehouse", warehouse, text=json.dumps({**order, "key": "O8"}))
        while "O8" not in kaspr("consume", "copied-orders", "--warehouse", warehouse).stdout:
            assert time.monotonic() < deadline, log.read_text()
            assert running.poll() is None, log.read_text()
            time.sleep(1)
        kaspr("delete", "kagent", "copy", "--purge", "--warehouse", warehouse)
        assert "copy" not in kaspr("get", "kagents", "--warehouse", warehouse).stdout
    finally:
        running.send_signal(signal.SIGTERM)
        code = running.wait(timeout=120)
    assert code == 0, log.read_text()

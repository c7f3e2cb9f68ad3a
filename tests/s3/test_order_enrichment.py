"""The application of the demo in a bucket, by its commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.s3.conftest import SECRET

BUNDLE = Path(__file__).parents[2] / "bundles" / "order-system"


def kaspr_delta(warehouse: str, *words: str, given: str = "") -> str:
    """The output of a command."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "kaspr_delta", *words, "--warehouse", warehouse],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    return done.stdout


def generated(*words: str) -> str:
    """Records of the bundle's generator."""
    program = [sys.executable, str(BUNDLE / "generate.py"), *words]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout  # noqa: S603


@pytest.mark.slow
@pytest.mark.spark
def test_orders_are_enriched_and_follow_a_price_in_a_bucket(warehouse: str) -> None:
    kaspr_delta(warehouse, "apply", "-f", str(BUNDLE))
    kaspr_delta(warehouse, "produce", "raw-products", given=generated("products", "--count", "4"))
    kaspr_delta(warehouse, "produce", "raw-orders", given=generated("orders", "--count", "9", "--products", "4"))
    kaspr_delta(warehouse, "run")
    row = json.loads(kaspr_delta(warehouse, "table", "orders-products-join", "get", "O1"))["value"]
    product = row["right"] | {"price": 9.5}
    changed = json.dumps({"key": row["left"]["product_id"], "value": product})
    kaspr_delta(warehouse, "produce", "raw-products", given=changed)
    kaspr_delta(warehouse, "run")
    assert json.loads(kaspr_delta(warehouse, "table", "orders-products-join", "get", "O1"))["value"]["right"] == product
    enriched = [json.loads(line) for line in kaspr_delta(warehouse, "consume", "enriched-orders").splitlines()]
    assert [one["value"]["unit_price"] for one in enriched if one["key"] == "O1"][-1] == 9.5
    assert len({one["key"] for one in enriched}) == 9
    assert "join/orders-products-join" in kaspr_delta(warehouse, "status")

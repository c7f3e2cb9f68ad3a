from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.installed.conftest import ROOT, Environment, run

FILL = """
import subprocess
import sys
from kaspr_delta import Application

app = Application.open(sys.argv[1], warehouse=sys.argv[2])
app.table("products").put({"P1": {"name": "Widget", "price": 2}})
app.table("orders").put({"O1": {"product_id": "P1"}, "O2": {"product_id": "P9"}})
"""


@pytest.mark.spark
def test_the_wheel_alone_runs_a_join_on_a_warehouse_that_another_process_filled(
    environment: Environment, tmp_path: Path
) -> None:
    warehouse = tmp_path / "wh"
    run(sys.executable, "-c", FILL, ROOT / "bundles" / "order-system", warehouse)

    python = environment("local")
    command = [python, "-m", "kaspr_delta", "run", "--only", "join/orders-products-join", "--warehouse", warehouse]
    output = run(*command, cwd=tmp_path)
    assert "join/orders-products-join" in output
    rows = DeltaTable(warehouse / "order_system" / "orders_products_join").to_pyarrow_table().to_pylist()
    assert [(row["key"], row["left"], row["right"]) for row in rows] == [
        ('"O1"', '{"product_id":"P1"}', '{"name":"Widget","price":2}')
    ]


def test_the_wheel_without_spark_plans_an_application(environment: Environment, tmp_path: Path) -> None:
    python = environment("databricks")
    planned = run(python, "-m", "kaspr_delta", "plan", ROOT / "bundles" / "order-system", cwd=tmp_path)
    assert "orders-products-join" in planned


def test_the_wheel_without_extras_says_what_a_run_needs(environment: Environment, tmp_path: Path) -> None:
    python = environment()
    program = [python, "-m", "kaspr_delta", "run", ROOT / "bundles" / "order-system"]
    done = subprocess.run(list(map(str, program)), cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        ["pyspark is not installed: pip install 'kaspr-delta[local]'"],
    )

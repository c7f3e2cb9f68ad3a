"""A real kill in the middle of a run, then a run that goes on: as if nothing had happened."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaspr_delta import Application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "bundles" / "order-system"


def write_first_wave(app: Application) -> None:
    app.topic("raw-products").produce(
        [{"key": f"P{n}", "value": {"name": f"Product {n}", "price": n}, "timestamp": n} for n in range(5)]
    )
    app.topic("raw-orders").produce(
        [
            {"key": f"O{n}", "value": {"order_id": f"O{n}", "product_id": f"P{n % 6}", "quantity": n}, "timestamp": n}
            for n in range(30)
        ]
    )


def write_second_wave(app: Application) -> None:
    app.topic("raw-products").produce([{"key": "P1", "value": {"name": "Dearer", "price": 100}, "timestamp": 100}])
    app.topic("raw-orders").produce([{"key": "O2", "value": None, "timestamp": 100}])


def outcome(app: Application) -> dict[str, Any]:
    """All that a run leaves behind, but for the moments at which it was done."""
    enriched = app.topic("enriched-orders").records()
    for record in enriched:
        record["value"].pop("enriched_at")
    fields = ("key", "value")
    emissions = app.channel("orders-products-joined").records()
    return {
        "orders": app.table("orders").to_dict(),
        "products": app.table("products").to_dict(),
        "result": app.join("orders-products-join").to_dict(),
        "subscriptions": sorted(app.sql("SELECT * FROM subscriptions__orders_products_join").collect()),
        "channel": sorted(repr([record[name] for name in fields]) for record in emissions),
        "enriched": sorted(repr([record[name] for name in (*fields, "partition")]) for record in enriched),
        "dead": app.dead_letters(),
    }


@pytest.fixture(scope="module")
def open_app(spark: SparkSession) -> Callable[[Path], Application]:
    return lambda warehouse: Application.open(MANIFESTS, warehouse=warehouse, spark=spark)


@pytest.fixture(scope="module")
def undisturbed(open_app: Callable[[Path], Application], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    app = open_app(tmp_path_factory.mktemp("undisturbed"))
    write_first_wave(app)
    app.run()
    write_second_wave(app)
    app.run()
    return outcome(app)


def killed(warehouse: Path, victim: str, point: str) -> None:
    """Run in a process that is killed at the point."""
    command = [sys.executable, str(Path(__file__).with_name("killed_run.py")), str(MANIFESTS), str(warehouse)]
    done = subprocess.run([*command, victim, point], capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
    assert done.returncode == -9, done.stdout + done.stderr


POINTS = [
    ("agent/ingest-orders", "before-commit"),
    ("agent/ingest-orders", "committed"),
    ("agent/ingest-orders", "folded"),
    ("join/orders-products-join", "before-commit"),
    ("join/orders-products-join", "committed"),
    ("join/orders-products-join", "folded"),
    ("agent/process-enriched-orders", "before-commit"),
    ("agent/process-enriched-orders", "committed"),
    ("agent/process-enriched-orders", "folded"),
]


def test_killed_again_and_again_the_outcome_is_the_same(
    open_app: Callable[[Path], Application], undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """Each kill leaves the next process another kind of wreck; the last one carries on with a second wave."""
    write_first_wave(open_app(tmp_path))
    for victim, point in (POINTS[1], POINTS[4], POINTS[8]):
        killed(tmp_path, victim, point)
    app = open_app(tmp_path)
    app.run()
    write_second_wave(app)
    app.run()
    assert outcome(app) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "point"), POINTS)
def test_killed_at_any_point_with_newer_rows_at_the_replay(
    open_app: Callable[[Path], Application], undisturbed: dict[str, Any], tmp_path: Path, victim: str, point: str
) -> None:
    """The replay of a batch that was killed sees rows that were not there when it was first decided."""
    app = open_app(tmp_path)
    write_first_wave(app)
    killed(tmp_path, victim, point)
    write_second_wave(app)
    app.run()
    done = outcome(app)
    # What is emitted on the way depends on what was there when; where it leads does not.
    for place in ("orders", "products", "result", "subscriptions", "dead"):
        assert done[place] == undisturbed[place], place
    folded: dict[Any, Any] = {}
    for record in app.channel("orders-products-joined").records():
        folded[record["key"]] = record["value"]
    assert {key: value for key, value in folded.items() if value is not None} == done["result"]
    enriched = [record["value"] for record in app.topic("enriched-orders").records()]
    values = [r["value"] for r in app.channel("orders-products-joined").records() if r["value"] is not None]
    assert len(enriched) == len(values)

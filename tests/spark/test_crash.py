"""Real kills around every write of a batch, and runs that go on: as if nothing had happened."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaspr_delta import Application
from tests.spark.channels import folded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "bundles" / "order-system"
JOIN = "join/orders-products-join"
ENRICH = "agent/process-enriched-orders"

# Every write that a batch of each resource makes, in order: the commit, the folds, the note that they are done.
WRITES = {
    "agent/ingest-orders": ["log__ingest_orders", "orders", "_kaspr_dead_letters", "_kaspr_progress"],
    JOIN: [
        "channel__orders_products_joined",
        "orders_products_join",
        "subscriptions__orders_products_join",
        "_kaspr_dead_letters",
        "_kaspr_progress",
    ],
    ENRICH: ["log__process_enriched_orders", "topic__enriched_orders", "_kaspr_dead_letters", "_kaspr_progress"],
}
POINTS = {victim: [(t, m) for t in tables for m in ("before", "after")] for victim, tables in WRITES.items()}


def write_wave(app: Application, number: int) -> None:
    """Inserts, updates, a deletion, and one record for each place where something can fail."""
    products = {
        "P0": {"name": "Free", "price": 0},
        f"P{number}": {"name": f"Product {number}", "price": number},
        "priceless": {"name": "No price", "price": None},  # no total: a dead letter
    }
    orders: dict[str, Any] = {
        f"O{number}": {"order_id": f"O{number}", "product_id": f"P{number}", "quantity": number},
        f"X{number}": {"order_id": f"X{number}", "product_id": "priceless", "quantity": number},
        f"O{number - 1}": {"order_id": f"O{number - 1}", "product_id": "P0", "quantity": number},
        f"O{number - 2}": None,
        f"never-there-{number}": None,  # cannot be deleted
        f"list-{number}": ["has", "no", "product"],  # no extractor can read it
    }
    for topic, rows in (("raw-products", products), ("raw-orders", orders)):
        app.topic(topic).produce([{"key": k, "value": v, "timestamp": number} for k, v in rows.items()])
    app.topic("raw-orders").produce(
        [{"key": None, "value": {"wave": number}, "timestamp": number}]
    )  # no row is without


def outcome(app: Application) -> dict[str, Any]:
    """All that runs leave behind, but for the moments at which it was done."""
    enriched = app.topic("enriched-orders").records()
    for record in enriched:
        record["value"].pop("enriched_at")
    emissions = app.channel("orders-products-joined").records()
    letters = ("resource", "key", "value", "reason", "timestamp")
    return {
        "orders": app.table("orders").to_dict(),
        "products": app.table("products").to_dict(),
        "result": app.join("orders-products-join").to_dict(),
        "subscriptions": sorted(app.sql("SELECT * FROM subscriptions__orders_products_join").collect()),
        "channel": counted(emissions, "key", "value"),
        "enriched": counted(enriched, "key", "value", "partition"),
        "dead": counted(
            [x | ({"timestamp": 0} if x["resource"] == JOIN else {}) for x in app.dead_letters()], *letters
        ),
        **{f"feed of {table}": feed(app, table) for table in ("orders", "products", "orders_products_join")},
    }


def counted(records: list[dict[str, Any]], *names: str) -> Counter[str]:
    return Counter(repr([record[name] for name in names]) for record in records)


def feed(app: Application, table: str) -> Counter[str]:
    """A table's change feed, whatever its commits were."""
    rows = app.delta.changes(app.spark, table).drop("_commit_version", "_commit_timestamp", "timestamp").collect()
    return Counter(map(repr, rows))


@pytest.fixture(scope="module")
def open_app(spark: SparkSession) -> Callable[[Path], Application]:
    return lambda warehouse: Application.open(MANIFESTS, warehouse=warehouse, spark=spark)


Undisturbed = Callable[[int], dict[str, Any]]


@pytest.fixture(scope="module")
def undisturbed(open_app: Callable[[Path], Application], tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """What is there after so many waves, each run until quiet and none disturbed."""
    app = open_app(tmp_path_factory.mktemp("undisturbed"))

    @cache
    def after(wave: int) -> dict[str, Any]:
        if wave == 0:
            return {}
        after(wave - 1)
        write_wave(app, wave)
        app.run()
        return outcome(app)

    return after


def killed(warehouse: Path, victim: str, table: str, moment: str) -> None:
    """Run in a process that is killed at the point."""
    command = [sys.executable, str(Path(__file__).with_name("killed_run.py")), str(MANIFESTS), str(warehouse)]
    done = subprocess.run([*command, victim, table, moment], capture_output=True, text=True, timeout=600, check=False)  # noqa: S603
    assert done.returncode == -9, done.stdout + done.stderr


AGAIN_AND_AGAIN = [
    ("agent/ingest-orders", "orders", "before"),
    (JOIN, "subscriptions__orders_products_join", "before"),
    (ENRICH, "topic__enriched_orders", "after"),
]


@pytest.mark.parametrize("points", [AGAIN_AND_AGAIN[1:2], pytest.param(AGAIN_AND_AGAIN, marks=pytest.mark.slow)])
def test_killed_again_and_again_the_outcome_is_the_same(
    open_app: Callable[[Path], Application],
    undisturbed: Undisturbed,
    tmp_path: Path,
    points: list[tuple[str, str, str]],
) -> None:
    """Each kill leaves the next process another kind of wreck."""
    write_wave(open_app(tmp_path), 1)
    for point in points:
        killed(tmp_path, *point)
    app = open_app(tmp_path)
    app.run()
    assert outcome(app) == undisturbed(1)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("victim", WRITES)
def test_killed_before_and_after_every_write_the_outcome_is_the_same(
    open_app: Callable[[Path], Application], undisturbed: Undisturbed, tmp_path: Path, victim: str
) -> None:
    """Nothing is lost and nothing doubled: tables, their change feeds, the channel, the topic, the dead letters."""
    for wave, (table, moment) in enumerate(POINTS[victim], start=1):
        app = open_app(tmp_path)
        write_wave(app, wave)
        killed(tmp_path, victim, table, moment)
        app.run()
        assert outcome(app) == undisturbed(wave), (table, moment)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("victim", WRITES)
def test_killed_around_the_commit_with_newer_rows_at_the_replay(
    open_app: Callable[[Path], Application], undisturbed: Undisturbed, tmp_path: Path, victim: str
) -> None:
    """The replay sees newer rows. What is emitted on the way may differ; where it leads does not."""
    app = open_app(tmp_path)
    for wave, moment in ((1, "before"), (3, "after")):
        write_wave(app, wave)
        killed(tmp_path, victim, WRITES[victim][0], moment)
        write_wave(app, wave + 1)
        app.run()
        done, wanted = outcome(app), undisturbed(wave + 1)
        for place in ("orders", "products", "result", "subscriptions"):
            assert done[place] == wanted[place], (place, moment)
        records = app.channel("orders-products-joined").records()
        assert folded(records) == done["result"]
        values = [record for record in records if record["value"] is not None]
        failed = app.dead_letters(ENRICH)
        assert len(app.topic("enriched-orders").records()) + len(failed) == len(values)

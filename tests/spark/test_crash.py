"""Real kills before and after every write of a batch: later runs give the outcome of an undisturbed run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from tests.spark import shapes
from tests.spark.channels import counted
from tests.spark.killing import Point, around_writes, killed, run_others
from tests.spark.order_system import join_and_reader

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "bundles" / "order-system"
JOIN = "join/orders-products-join"
ENRICH = "agent/process-enriched-orders"

# The tables that a batch of each resource writes, in order: the log, the folds, the dead letters, the progress.
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


def write_wave(app: Application, number: int) -> None:
    """Write inserts, updates, a deletion, and one record for each place where something can fail."""
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
    )  # a row needs a key


def outcome(app: Application) -> dict[str, Any]:
    """The content of tables, channel, topic, feeds and dead letters, without times that differ between runs."""
    dead = [x | ({"timestamp": 0} if x["resource"] == JOIN else {}) for x in app.dead_letters()]
    return {
        **outcome_of_join(app),
        "orders": app.table("orders").to_dict(),
        "products": app.table("products").to_dict(),
        "dead": counted(dead, "resource", "key", "value", "reason", "timestamp"),
        **{f"feed of {table}": feed(app, table) for table in ("orders", "products")},
    }


def outcome_of_join(app: Application) -> dict[str, Any]:
    """The result of the join, its feed, its state and its channel, and the records of the channel's reader."""
    enriched = app.topic("enriched-orders").records()
    for record in enriched:
        record["value"].pop("enriched_at")
    return {
        "result": app.join("orders-products-join").to_dict(),
        "feed of result": feed(app, "orders_products_join"),
        "subscriptions": sorted(app.sql("SELECT * FROM subscriptions__orders_products_join").collect()),
        "channel": counted(app.channel("orders-products-joined").records(), "key", "value"),
        "enriched": counted(enriched, "key", "value", "partition"),
    }


def feed(app: Application, table: str) -> Counter[str]:
    """The rows of a table's change feed, counted, without versions and times."""
    rows = app.delta.changes(app.spark, table).drop("_commit_version", "_commit_timestamp", "timestamp").collect()
    return Counter(map(repr, rows))


@pytest.fixture(scope="module")
def open_app(spark: SparkSession) -> Callable[[Path], Application]:
    return lambda warehouse: Application.open(MANIFESTS, warehouse=warehouse, spark=spark)


Undisturbed = Callable[[int], dict[str, Any]]


@pytest.fixture(scope="module")
def undisturbed(open_app: Callable[[Path], Application], tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """A function: the outcome after a number of waves, each run until quiet without a kill."""
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


def test_after_a_kill_the_next_run_neither_loses_nor_doubles_rows_records_and_letters(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The join is killed when its batch is committed, its result folded, and its state not yet."""
    manifests = join_and_reader(tmp_path)
    app = Application.open(manifests, warehouse=tmp_path / "wh", spark=spark)
    widget, priceless = {"name": "Widget", "price": 2}, {"name": "No price", "price": None}
    app.table("products").put({"P1": widget, "P2": priceless})
    orders = {name: {"order_id": name, "product_id": f"P{name[1:]}", "quantity": 3} for name in ("O1", "O2", "O3")}
    app.table("orders").put({**orders, "list": ["has", "no", "product"]})  # no extractor can read the list
    killed(manifests, tmp_path / "wh", JOIN, ("subscriptions__orders_products_join", "before"))
    Application.open(manifests, warehouse=tmp_path / "wh", spark=spark).run()
    done = outcome_of_join(app)
    result = {"O1": {"left": orders["O1"], "right": widget}, "O2": {"left": orders["O2"], "right": priceless}}
    assert done["result"] == result
    assert {row["key"]: row["fk"] for row in done["subscriptions"]} == {
        **{f'"{name}"': f'"{order["product_id"]}"' for name, order in orders.items()},
        '"list"': None,
    }
    assert done["channel"] == counted([{"key": key, "value": pair} for key, pair in result.items()], "key", "value")
    assert done["feed of result"].total() == len(result)
    assert done["enriched"].total() == 1
    letters = [(letter["resource"], letter["key"]) for letter in app.dead_letters()]
    assert sorted(letters) == [(ENRICH, '"O2"'), (JOIN, '"list"')]


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("victim", WRITES)
def test_killed_before_and_after_every_write_the_outcome_is_the_same(
    open_app: Callable[[Path], Application], undisturbed: Undisturbed, tmp_path: Path, victim: str
) -> None:
    """Nothing is lost or doubled in tables, their change feeds, the channel, the topic and the dead letters."""
    for wave, point in enumerate(around_writes(WRITES[victim]), start=1):
        app = open_app(tmp_path)
        write_wave(app, wave)
        run_others(app, victim)
        killed(MANIFESTS, tmp_path, victim, point)
        app.run()
        assert outcome(app) == undisturbed(wave), point


class ShapeOnTwoWarehouses:
    """A victim's part of ``shapes.yaml``, on two warehouses. Kills and full disks disturb only the first one."""

    def __init__(self, spark: SparkSession, folder: Path, victim: str, warehouse: Path | None = None) -> None:
        self.victim = victim
        self.manifests = shapes.write_part(victim, folder)
        self.warehouse = warehouse or folder / "disturbed"
        self.app, self.other = (
            Application.open(self.manifests, warehouse=warehouse, spark=spark)
            for warehouse in (self.warehouse, folder / "undisturbed")
        )

    def wave(self, number: int, *, quiet: bool = True) -> None:
        """Write a wave to both. Unless ``quiet``, the disturbed one runs without the victim and its dependents."""
        for app in (self.app, self.other):
            shapes.write_wave(app, number)
        self.other.run()
        if quiet:
            self.app.run()
        else:
            run_others(self.app, self.victim)

    def kill(self, point: Point) -> None:
        killed(self.manifests, self.warehouse, self.victim, point)

    def assert_equal_outcomes(self) -> None:
        done, wanted = shapes.outcome(self.app), shapes.outcome(self.other)
        assert done.keys() == wanted.keys()
        for place, rows in wanted.items():
            assert done[place] == rows, place


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("victim", shapes.victims())
def test_of_any_shape_killed_around_every_write_with_newer_rows_at_the_replay_the_outcome_is_the_same(
    spark: SparkSession, tmp_path: Path, victim: str
) -> None:
    """Killed in its first load, and repeatedly in the second wave, each time with other incomplete work."""
    shape = ShapeOnTwoWarehouses(spark, tmp_path, victim)
    commit, *folds = shapes.writes(victim)
    shape.wave(1, quiet=False)
    shape.kill((commit, "after"))
    shape.app.run()
    shape.wave(2, quiet=False)
    shape.kill((commit, "before"))
    shape.wave(3, quiet=False)
    for point in [(commit, "after"), *around_writes(folds)]:
        shape.kill(point)
    shape.app.run()
    shape.wave(4)
    shape.assert_equal_outcomes()

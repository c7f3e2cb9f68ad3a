"""The shortcut of a first load of many rows gives the same outcome as the common way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import Size
from benchmarks.warehouses import JOIN, Orders
from kaspr_delta.engine.joins.foreign_key import first_load, foreign_key_join
from kaspr_delta.engine.joins.foreign_key.first_load import KeyCounts, usual_keys
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.storage.limits import Limits
from kaspr_delta.storage.limits import Size as Rows
from kaspr_delta.storage.opening import open_tables
from tests.limits import set_limits

pytestmark = pytest.mark.further

MANY = Size(60, 6)
# Unusual values, by order: no JSON, null, JSON null, an unknown product, no product, an unreadable list.
ODD = {7: "no json", 8: None, 9: "null", 10: '{"product_id":"P999999"}', 11: "{}", 12: "[1]"}


def filled(spark: SparkSession, folder: Path) -> Orders:
    orders = Orders.filled(folder, MANY)
    moment = F.timestamp_millis(F.lit(1_700_000_000_000)).alias("timestamp")
    cases = F.when(F.lit(False), F.lit(""))
    for number, value in ODD.items():
        cases = cases.when(F.col("key") == f'"O{number:09d}"', F.lit(value).cast("string"))
    odd = F.col("key").isin([f'"O{number:09d}"' for number in ODD])
    rows = orders.app.delta.read(spark, "orders").select(
        "key", F.when(odd, cases).otherwise(F.col("value")).alias("value"), moment
    )
    orders.app.delta.replace(spark, rows.localCheckpoint(), "orders")
    products = orders.app.delta.read(spark, "products").select("key", "value", moment)
    orders.app.delta.replace(spark, products.localCheckpoint(), "products")
    return orders


def outcome(orders: Orders) -> dict[str, DataFrame]:
    """The channel, the result, the subscriptions and the dead letters, without columns that differ between runs."""
    unstable_columns = ("checkpoint", "batch", "memo", "start", "seq", "at")
    read = {name: orders.app.delta.read(orders.app.spark, name) for name in (orders.plan.log, orders.plan.result)}
    read["subscriptions"] = orders.app.delta.read(orders.app.spark, orders.plan.subscriptions)
    read["letters"] = orders.app.delta.read(orders.app.spark, "_kaspr_dead_letters")
    shown = {name: df.where("memo IS NULL") if "memo" in df.columns else df for name, df in read.items()}
    # Without a row, the timestamp is the time of the commit that touched the key.
    of_rows = {"timestamp": F.expr("CASE WHEN timestamp < '2024-01-01' THEN timestamp END")}
    timed = {name: df.withColumns(of_rows) if "timestamp" in df.columns else df for name, df in shown.items()}
    return {name: df.drop(*unstable_columns) for name, df in timed.items()}


@pytest.mark.slow
@pytest.mark.parametrize("sent_whole", [True, False])
def test_the_shortcut_of_a_large_first_load_gives_the_common_outcome(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, sent_whole: bool
) -> None:
    taken: list[KeyCounts | None] = []

    def usual(*arguments: Any, **named: Any) -> KeyCounts | None:
        taken.append(usual_keys(*arguments, **named))
        return taken[-1]

    monkeypatch.setattr(foreign_key_join, "usual_keys", usual)
    broadcast = 64 << 20 if sent_whole else 100
    quick = filled(spark, tmp_path / "quick")
    set_limits(quick.app, few=Rows(MANY.orders - 1, 4 << 20), first_load_broadcast=broadcast)
    quick_run = quick.app.run(only=[JOIN]).resources[JOIN]
    fits = {found.rows: found.fits(quick.app.delta.limits) for found in taken if found}
    assert (set(fits), fits[6]) == ({60, 6}, sent_whole)
    common = filled(spark, tmp_path / "common")
    set_limits(common.app, few=Rows(MANY.orders, 4 << 20))
    common_run = common.app.run(only=[JOIN]).resources[JOIN]
    assert len(taken) == 2
    assert (quick_run.rows_in, quick_run.rows_out, quick_run.dead_letters) == (
        common_run.rows_in,
        common_run.rows_out,
        common_run.dead_letters,
    )
    assert quick_run.dead_letters == 2  # the value that is no JSON, and the list
    found, expected = outcome(quick), outcome(common)
    for name, df in found.items():
        assert_df_equality(df, expected[name], ignore_row_order=True, ignore_nullable=True)


# Keys are compared by delta-rs, hashed, or counted by Spark.
WAYS = (Limits(), Limits(first_load_compared=0), Limits(first_load_compared=0, first_load_hashed=0))


@pytest.mark.parametrize(
    "key", ['"O000000001"', *(pytest.param(odd, marks=pytest.mark.slow) for odd in ("P100", None, "1.50"))]
)
def test_duplicate_null_or_non_canonical_keys_rule_out_the_shortcut(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    orders = Orders.filled(tmp_path / "wh", Size(30, 3))
    plan = orders.app.plan.table("orders")
    assert plan is not None

    def keys_of(limits: Limits, *, sized: bool = False) -> KeyCounts | None:
        table = KeyedTable(open_tables(orders.app.delta.namespace, limits), plan)
        with monkeypatch.context() as patched:
            if limits == Limits():
                failing = lambda _: pytest.fail("Spark reads keys that delta-rs compares")  # noqa: E731
                patched.setattr(first_load, "collected", failing)
            return usual_keys(table, spark, table.newest(spark), sized=sized)

    for limits in WAYS:
        assert keys_of(limits) == KeyCounts(30, 30, 0)
        sized = keys_of(limits, sized=True)
        assert sized is not None
        assert 30 * 200 < sized.size < 30 * 300
    rows = spark.createDataFrame([(key, "{}", None)], "key STRING, value STRING, timestamp TIMESTAMP")
    orders.app.delta.append(spark, rows, "orders")
    for limits in WAYS:
        assert keys_of(limits) is None

"""Runs without Spark and runs on it take turns on one warehouse, and find what all runs on Spark find."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application, ResourceFailedError
from kaspr_delta.engine.batch import stream_run
from kaspr_delta.engine.batch.checkpoint import checkpoints_of
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.native.tables import NativeTables
from tests.empty_tables import Create
from tests.unit.runtime.test_driver_runs import first_wave, opened, order, outcome, second_wave


def third_wave(app: Application) -> None:
    app.table("products").put({"P2": {"price": 7}, "P1": None})
    app.topic("raw-orders").produce([order(5, "P2"), order(1, "P2"), {"key": "bad", "value": 2}])
    app.topic("clicks").produce([{"key": "v", "value": 5, "timestamp": 61_000}])


def run(folder: Path, spark: SparkSession | None) -> None:
    """Run until quiet, on Spark if a session is given."""
    if spark is None:
        opened(folder).run()
    else:
        Application.open(folder / "shop.yaml", warehouse=folder / "wh", spark=spark).run()


def after(folder: Path, turns: Sequence[SparkSession | None]) -> dict[str, Any]:
    """The outcome of three waves, each with its run."""
    folder.mkdir()
    for wave, spark in zip((first_wave, second_wave, third_wave), turns, strict=True):
        wave(opened(folder))
        run(folder, spark)
    return outcome(opened(folder))


def test_runs_with_and_without_spark_find_the_same(spark: SparkSession, tmp_path: Path) -> None:
    on_spark = after(tmp_path / "spark", (spark, spark, spark))
    assert len(on_spark["priced"]) == 5
    assert after(tmp_path / "none", (None, None, None)) == on_spark
    assert after(tmp_path / "first", (spark, None, spark)) == on_spark
    assert after(tmp_path / "last", (None, spark, None)) == on_spark


def test_a_kill_before_the_checkpoint_of_spark_is_gone_doubles_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next stream goes on from an older position than the log."""
    on_spark = after(tmp_path / "spark", (spark, spark, spark))
    folder = tmp_path / "killed"
    folder.mkdir()
    first_wave(opened(folder))
    run(folder, spark)
    with monkeypatch.context() as patched:
        patched.setattr(stream_run, "discard", lambda _: None)
        second_wave(opened(folder))
        run(folder, None)
    app = opened(folder)
    assert checkpoints_of(app.delta.namespace, ResourceRef("agent", "take-orders")).names()
    third_wave(app)
    run(folder, spark)
    assert outcome(app) == on_spark


def test_a_stream_after_a_run_without_spark_notices_a_replaced_table(
    spark: SparkSession, tmp_path: Path, copied_empty_tables: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NativeTables, "create", copied_empty_tables)  # copies share their id
    folder = tmp_path / "replaced"
    folder.mkdir()
    app = opened(folder)
    for wave in (first_wave, second_wave):
        wave(app)
        run(folder, None)
    shutil.rmtree(folder / "wh" / app.plan.schema / "topic__raw_orders")
    app = opened(folder)
    for number in range(4):
        app.topic("raw-orders").produce([order(number)])
    with pytest.raises(ResourceFailedError, match=r"agent/take-orders failed: .*replaced"):
        run(folder, spark)

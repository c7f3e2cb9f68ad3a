"""A result is up to date soon after the last change, even if folds are slow: no other change has to come."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.engine.batch.folding import Folding
from tests.continuous import running, wait_until
from tests.properties.shown import MANIFESTS, JoinReader

SLOW_FOLD = 2.0  # seconds; the next fold waits a minute while changes keep coming
ORDERS = 500


@pytest.mark.slow
def test_an_overwritten_table_reaches_the_result_without_another_change(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold = Folding.fold

    def slowly(*arguments: Any, **named: Any) -> Any:
        time.sleep(SLOW_FOLD)
        return fold(*arguments, **named)

    def is_joined() -> bool:
        return JoinReader(app, "left").differing() == 0

    app = Application.open(MANIFESTS, warehouse=tmp_path, spark=spark)
    app.table("products").put({f"P{n}": {"n": n} for n in range(20)})
    app.table("orders").put({f"O{n}": {"fk": f"P{n % 25}", "n": n} for n in range(ORDERS)})
    app.run()
    monkeypatch.setattr(Folding, "fold", slowly)
    with running(app, only=["join/left"]) as failures:
        # The first batch is folded at once; the next one comes while it has to wait for its fold.
        app.table("orders").put({"O1": {"fk": "P0", "n": -1}})
        wait_until(is_joined, failures, seconds=40)
        app.sql(
            "INSERT OVERWRITE orders SELECT key, to_json(named_struct('fk', 'P' || (cast(hash(key) AS INT) % 7),"
            " 'n', -2)) AS value, timestamp FROM orders WHERE key > '\"O2'"
        )
        wait_until(is_joined, failures, seconds=30)

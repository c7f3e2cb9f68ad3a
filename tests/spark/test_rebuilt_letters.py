"""A rebuild reads all rows again. After it each row that fails has one dead letter, and no other row has any."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.engine.batch import folding
from kaspr_delta.engine.batch.folding import Folding
from kaspr_delta.storage.layout import DEAD_LETTERS
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from tests.folders import delta_rs
from tests.manifests import opened
from tests.spark.dying import lost_power
from tests.spark.priced import PRICED

pytestmark = pytest.mark.further

MANIFESTS = (
    PRICED
    + """\
KasprTable/sold: {from: {table: orders}, groupBy: {python: "def product(order): return order['product']"}, count: {}}
KasprJoin/shipped:
  leftStream: {topic: shipments}
  rightTable: orders
  rightExtractor: {python: "def product(order): return order['product']"}
  type: left
  outputChannel: shipped
"""
)
# The resources that keep state, each with the keys of dead letters of records, which no rebuild makes anew.
REBUILT: dict[str, list[str]] = {"join/priced": [], "table/sold": [], "join/shipped": ['"s"']}


@pytest.fixture
def app(spark: SparkSession, tmp_path: Path) -> Application:
    """Two of three orders name no product, and a record of the stream has a dead letter, too."""
    app = opened(spark, tmp_path, "letters", MANIFESTS)
    app.table("orders").put({"good": {"product": "P"}, "bad": {}, "worse": {}})
    app.run()
    record = ("join/shipped", "shipments", '"s"', "{", "value cannot be read", "", None, 0, datetime.now(timezone.utc))
    NativeSystemTables(delta_rs(app.delta.namespace)).append(DEAD_LETTERS, [record])
    return app


def keys_with_letters(app: Application, resource: str) -> list[Any]:
    return sorted(letter["key"] for letter in app.dead_letters(resource))


def test_a_rebuild_leaves_one_letter_per_failing_row_and_letters_of_records(app: Application) -> None:
    """A row that is repaired is joined at once; its letter stays until the next rebuild."""
    app.table("orders").put({"bad": {"product": "P"}})
    app.run()
    for resource, of_records in REBUILT.items():
        assert keys_with_letters(app, resource) == ['"bad"', *of_records, '"worse"']
        app.rebuild(resource)
        assert keys_with_letters(app, resource) == [*of_records, '"worse"']
    app.table("orders").delete(["good", "bad", "worse"])
    app.run(only=["join/priced"])
    app.rebuild("join/priced")  # finds no difference and no row that fails
    assert {str(one.resource): one.dead_letters for one in app.status().resources} == {
        "join/priced": 0,
        "table/sold": 1,
        "join/shipped": 2,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("repaired", "step", "kept"),
    [
        (True, (Folding, "fold"), ['"worse"']),
        (True, (folding, "record_progress"), ['"worse"']),
        (False, (Folding, "fold"), []),
    ],
    ids=["before the letters are written", "before progress has them", "letters of deleted rows"],
)
def test_the_next_run_finishes_a_rebuild_that_died_around_writing_its_letters(
    app: Application, monkeypatch: pytest.MonkeyPatch, repaired: bool, step: tuple[Any, str], kept: list[str]
) -> None:
    if repaired:
        app.table("orders").put({"bad": {"product": "P"}})
    else:
        app.table("orders").delete(["good", "bad", "worse"])
    app.run()
    for resource, of_records in REBUILT.items():
        assert keys_with_letters(app, resource) == ['"bad"', *of_records, '"worse"']
        with monkeypatch.context() as patched:
            patched.setattr(*step, lost_power)
            with pytest.raises(InterruptedError):
                app.rebuild(resource)
        for _ in range(2):
            app.run(only=[resource])
            assert keys_with_letters(app, resource) == [*of_records, *kept]

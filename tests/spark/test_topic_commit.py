"""Large batches for one topic are committed by the append to it, or by the log if an event fails."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaspr_delta import Application
from kaspr_delta.engine.agent import stateless
from kaspr_delta.storage.limits import Limits
from tests.spark.killing import killed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANIFEST = """
apiVersion: kaspr.io/v1alpha1
kind: KasprAgent
metadata: {name: stamp, labels: {kaspr.io/app: direct}}
spec:
  input: {topic: {name: plain}}
  output: {topics: [{name: stamped, keySelector: {python: "def key(value): return value['n']"}}]}
  processors:
    pipeline: [stamp]
    operations:
      - name: stamp
        map:
          python: |
            import uuid
            def stamp(value):
                return {"n": 100 // value, "was": value, "mark": str(uuid.uuid4())}
"""
LOG = "log__stamp"
MANY = Limits().few_events.rows + 200


def manifests(folder: Path, text: str = MANIFEST) -> Path:
    path = folder / "direct.yaml"
    path.write_text(text)
    return path


def logged(app: Application, log: str = LOG) -> list[str]:
    """The kinds of the effects in the log."""
    rows = app.delta.read(app.spark, log).where("memo IS NULL").select("kind").collect()
    return [row["kind"] for row in rows]


def sent(app: Application) -> list[int]:
    return sorted(record["value"]["was"] for record in app.topic("stamped").records())


def test_a_large_batch_is_on_its_one_topic_once_and_not_in_the_log(spark: SparkSession, tmp_path: Path) -> None:
    app = Application.open(manifests(tmp_path), warehouse=tmp_path / "wh", spark=spark)
    app.topic("plain").produce([{"value": n} for n in range(1, MANY + 1)])
    done = app.run().resources["agent/stamp"]
    assert (done.rows_in, done.rows_out, done.dead_letters) == (MANY, MANY, 0)
    assert sent(app) == list(range(1, MANY + 1))
    assert not logged(app)

    again = Application.open(warehouse=tmp_path / "wh", spark=spark)
    again.topic("plain").produce([{"value": 5}])
    again.run()
    assert sent(again).count(5) == 2
    assert logged(again) == ["send"]


def test_a_large_batch_with_a_failed_event_is_committed_in_the_log(spark: SparkSession, tmp_path: Path) -> None:
    app = Application.open(manifests(tmp_path), warehouse=tmp_path / "wh", spark=spark)
    app.topic("plain").produce([{"value": n} for n in range(MANY)])
    done = app.run().resources["agent/stamp"]
    assert (done.rows_in, done.rows_out, done.dead_letters) == (MANY, MANY - 1, 1)
    assert sent(app) == list(range(1, MANY))
    assert sorted(set(logged(app))) == ["dead-letter", "send"]

    again = Application.open(warehouse=tmp_path / "wh", spark=spark)
    again.topic("plain").produce([{"value": n} for n in range(1, MANY)])
    again.run()
    assert len(sent(again)) == 2 * (MANY - 1)
    assert len(again.dead_letters()) == 1


PLAIN = """
apiVersion: kaspr.io/v1alpha1
kind: KasprAgent
metadata: {name: double, labels: {kaspr.io/app: direct}}
spec:
  input: {topic: {name: plain}}
  output: {topics: [{name: doubled, keySelector: {python: "def key(value): return value % 3"}}]}
  processors:
    pipeline: [large, double]
    operations:
      - {name: large, filter: {python: "def large(value): return value >= 10"}}
      - {name: double, map: {python: "def double(value): return value * 2"}}
"""


def test_records_keep_the_order_of_the_topic_without_a_sort(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Application.open(manifests(tmp_path, PLAIN), warehouse=tmp_path / "wh", spark=spark)
    # The files have different sizes: Spark takes the largest one first.
    bounds = [0, 100, 101, 400, 450, MANY]
    for first, end in pairwise(bounds):
        app.topic("plain").produce([{"value": n} for n in range(first, end)])
    monkeypatch.setattr(
        stateless, "in_partition_order", lambda records: records.where("raise_error('shuffled') IS NULL")
    )
    app.run()
    assert not logged(app, "log__double")
    assert [record["value"] for record in app.topic("doubled").records()] == [2 * n for n in range(10, MANY)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "moment", "already"),
    [
        (LOG, "before", False),
        (LOG, "after", False),
        ("topic__stamped", "before", False),
        ("topic__stamped", "after", True),
        ("_kaspr_progress", "before", True),
        ("_kaspr_progress", "after", True),
    ],
)
def test_a_batch_killed_around_its_writes_is_on_the_topic_once(
    spark: SparkSession, tmp_path: Path, table: str, moment: str, *, already: bool
) -> None:
    warehouse = tmp_path / "wh"
    app = Application.open(manifests(tmp_path), warehouse=warehouse, spark=spark)
    app.run()  # its checkpoint begins
    app.topic("plain").produce([{"value": n} for n in range(1, MANY + 1)])
    killed(manifests(tmp_path), warehouse, "agent/stamp", (table, moment))
    before = {record["value"]["mark"] for record in app.topic("stamped").records()}
    assert bool(before) == already

    app.topic("plain").produce([{"value": n} for n in range(1, MANY + 1)])
    for _ in range(2):
        Application.open(warehouse=warehouse, spark=spark).run()
        assert sent(app) == sorted([*range(1, MANY + 1), *range(1, MANY + 1)])
    assert before <= {record["value"]["mark"] for record in app.topic("stamped").records()}
    progress = app.delta.read(spark, "_kaspr_progress").where("resource = 'agent/stamp'")
    assert [row["out"] for row in progress.selectExpr("sum(rows_out) AS out").collect()] == [2 * MANY]

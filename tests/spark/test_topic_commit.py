"""Large batches for one topic are committed by the append to it, or by the log if an event fails."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.engine.agent import stateless
from kaspr_delta.storage.limits import Limits
from tests.manifests import manifests
from tests.spark.channels import values_of
from tests.spark.killing import killed

pytestmark = pytest.mark.further

STAMP = """
KasprAgent/{name}:
  input: {{topic: {{name: {plain}}}}}
  output: {{topics: [{{name: {stamped}, keySelector: {{python: "def key(value): return value['n']"}}}}]}}
  processors:
    pipeline: [stamp]
    operations:
      - name: stamp
        map:
          python: |
            import uuid
            def stamp(value):
                return {{"n": 100 // value, "was": value, "mark": str(uuid.uuid4())}}
"""
MANIFEST = STAMP.format(name="stamp", plain="plain", stamped="stamped")
FAILING = STAMP.format(name="fail", plain="with-a-zero", stamped="without-it")
STAMPS, FAILS = "agent/stamp", "agent/fail"
LOG = "log__stamp"
MANY = Limits().few_events.rows + 200


def written(folder: Path, text: str = MANIFEST) -> Path:
    path = folder / "direct.yaml"
    path.write_text(manifests("direct", text))
    return path


def logged(app: Application, log: str = LOG) -> list[str]:
    """The kinds of the effects in the log."""
    rows = app.delta.read(app.spark, log).where("memo IS NULL").select("kind").collect()
    return [row["kind"] for row in rows]


def sent(app: Application, topic: str = "stamped") -> list[int]:
    return sorted(record["value"]["was"] for record in app.topic(topic).records())


DOUBLE = """
KasprAgent/double:
  input: {topic: {name: numbers}}
  output: {topics: [{name: doubled, keySelector: {python: "def key(value): return value % 3"}}]}
  processors:
    pipeline: [large, double]
    operations:
      - {name: large, filter: {python: "def large(value): return value >= 10"}}
      - {name: double, map: {python: "def double(value): return value * 2"}}
"""


def test_a_large_batch_is_on_its_one_topic_once_in_order_or_in_the_log_if_an_event_fails(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = MANIFEST + FAILING + DOUBLE
    app = Application.open(written(tmp_path, text), warehouse=tmp_path / "wh", spark=spark)
    app.topic("plain").produce([{"value": n} for n in range(1, MANY + 1)])
    app.topic("with-a-zero").produce([{"value": n} for n in range(MANY)])
    # The files have different sizes: Spark takes the largest one first.
    bounds = [0, 100, 101, 400, 450, MANY]
    for first, end in pairwise(bounds):
        app.topic("numbers").produce([{"value": n} for n in range(first, end)])
    with monkeypatch.context() as patched:
        unsorted = "raise_error('shuffled') IS NULL"
        patched.setattr(stateless, "in_partition_order", lambda records: records.where(unsorted))
        app.run(only=["agent/double"])
    assert values_of(app, "doubled") == [2 * n for n in range(10, MANY)]
    assert not logged(app, "log__double")

    done = app.run().resources
    assert (done[STAMPS].rows_in, done[STAMPS].rows_out, done[STAMPS].dead_letters) == (MANY, MANY, 0)
    assert sent(app) == list(range(1, MANY + 1))
    assert not logged(app)
    assert (done[FAILS].rows_in, done[FAILS].rows_out, done[FAILS].dead_letters) == (MANY, MANY - 1, 1)
    assert sent(app, "without-it") == list(range(1, MANY))
    assert sorted(set(logged(app, "log__fail"))) == ["dead-letter", "send"]

    again = Application.open(warehouse=tmp_path / "wh", spark=spark)
    again.topic("plain").produce([{"value": 5}])
    again.topic("with-a-zero").produce([{"value": n} for n in range(1, MANY)])
    again.run()
    assert sent(again).count(5) == 2
    assert logged(again) == ["send"]
    assert len(sent(again, "without-it")) == 2 * (MANY - 1)
    assert len(again.dead_letters()) == 1


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
    app = Application.open(written(tmp_path), warehouse=warehouse, spark=spark)
    app.run()  # its checkpoint begins
    app.topic("plain").produce([{"value": n} for n in range(1, MANY + 1)])
    killed(written(tmp_path), warehouse, STAMPS, (table, moment))
    before = {record["value"]["mark"] for record in app.topic("stamped").records()}
    assert bool(before) == already

    app.topic("plain").produce([{"value": n} for n in range(1, MANY + 1)])
    for _ in range(2):
        Application.open(warehouse=warehouse, spark=spark).run()
        assert sent(app) == sorted([*range(1, MANY + 1), *range(1, MANY + 1)])
    assert before <= {record["value"]["mark"] for record in app.topic("stamped").records()}
    progress = app.delta.read(spark, "_kaspr_progress").where("resource = 'agent/stamp'")
    assert [row["out"] for row in progress.selectExpr("sum(rows_out) AS out").collect()] == [2 * MANY]

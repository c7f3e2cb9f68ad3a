"""A run starts only the streams that have something to read. Spark's checkpoints hold how far each has read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kaspr_delta import Application, ResourceFailedError
from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.engine.batch.stream_run import ResourceRun
from kaspr_delta.storage.limits import Limits
from tests.manifests import manifests

MANIFESTS = """
KasprTable/orders: {}
KasprTable/products: {}
KasprAgent/ingest:
  input: {topic: {name: incoming}}
  processors:
    pipeline: [put]
    operations:
      - name: put
        tables: [{name: orders, paramName: orders}]
        map:
          python: |
            def put(order, orders):
                orders[context["event"].key] = order
KasprJoin/joined:
  leftTable: orders
  rightTable: products
  type: inner
  extractor: {python: "def fk(order): return order['product']"}
  outputChannel: joined-channel
"""
COUNT = 60


@pytest.fixture
def app_file(tmp_path: Path) -> Path:
    (tmp_path / "shop.yaml").write_text(manifests("shop", MANIFESTS))
    return tmp_path / "shop.yaml"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The resources whose streams were started."""
    names: list[str] = []

    def noting(run: ResourceRun, spark: SparkSession, every: int | None) -> StreamingQuery | None:
        stream = start(run, spark, every)
        if stream is not None:
            names.append(str(run.runner.resource.ref))
        return stream

    start = ResourceRun.start
    monkeypatch.setattr(ResourceRun, "start", noting)
    return names


def test_a_stream_that_has_read_all_is_not_started(
    spark: SparkSession, tmp_path: Path, app_file: Path, started: list[str]
) -> None:
    def run() -> list[str]:
        started.clear()
        Application.open(app_file, warehouse=tmp_path / "wh", spark=spark).run()
        return started

    with Application.open(app_file, warehouse=tmp_path / "wh", spark=spark) as app:
        app.table("products").put({"P1": {"name": "Widget"}})
        app.topic("incoming").produce([{"key": "a", "value": {"product": "P1"}}])
    assert run() == ["agent/ingest", "join/joined"]
    assert run() == []
    # Changes that change no result: a commit of several data files, and one of several files of change data.
    rows = spark.range(COUNT).selectExpr(
        "CAST(id AS STRING) AS key", "'1' AS value", "current_timestamp() AS timestamp"
    )
    app.delta.append(app.spark, rows.repartition(4), "products")
    app.delta.update(spark, "products", "value = '2'", "key LIKE '%7'")
    assert run() == ["join/joined"]
    assert run() == []
    app.topic("incoming").produce([{"key": "b", "value": {"product": 7}}])
    assert run() == ["agent/ingest", "join/joined"]
    assert {key: pair["right"] for key, pair in app.join("joined").rows()} == {"a": {"name": "Widget"}, "b": 2}


def test_the_rest_of_a_commit_is_read_by_the_next_run(
    spark: SparkSession, tmp_path: Path, app_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream may read the files of a large commit in several batches. A run may end between two of them."""

    def fail_after_one_batch(self: BatchRunner, batch: DataFrame, batch_id: int) -> None:
        if done:
            msg = "the machine is switched off"
            raise RuntimeError(msg)
        done.extend(batch.collect())
        process(self, batch, batch_id)

    done: list[Row] = []
    process = BatchRunner.process
    limits = Limits(ordered_batch="1b")  # each batch reads one file
    app = Application.open(app_file, warehouse=tmp_path / "wh", spark=spark, limits=limits)
    records = spark.range(COUNT).selectExpr(
        "encode(CAST(id AS STRING), 'UTF-8') AS key",
        "encode('{}', 'UTF-8') AS value",
        "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
        "current_timestamp() AS timestamp",
        "0 AS partition",
        "id AS seq",
    )
    app.delta.append(app.spark, records.repartition(4), "topic__incoming")
    with monkeypatch.context() as patched:
        patched.setattr(BatchRunner, "process", fail_after_one_batch)
        with pytest.raises(ResourceFailedError, match="switched off"):
            app.run(only=["agent/ingest"])
    some = len(app.table("orders").to_dict())
    assert 0 < some < COUNT
    Application.open(app_file, warehouse=tmp_path / "wh", spark=spark).run(only=["agent/ingest"])
    assert len(app.table("orders").to_dict()) == COUNT

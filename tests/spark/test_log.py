"""Batches of a log that are read, counted and copied without Spark: the rows are those that were appended."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.log import BatchMetadata, Log
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.storage.layout import CHANNEL, Layout
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import open_tables
from kaspr_delta.storage.tables import FIRST_ROWS, Upsert

COLUMNS = ("key", "emitted", "live")


def effects(batch: int) -> pa.Table:
    rows = [{"key": f"{batch}'{row}", "emitted": "e" if row else None, "live": bool(row)} for row in range(5)]
    return pa.Table.from_pylist([*rows, {"key": "refused", "live": None}])


def test_effects_of_one_batch_are_read_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    delta = open_tables(Warehouse(str(tmp_path)).namespace("logs"))
    delta.create_schema(spark)
    delta.create(spark, "channel", CHANNEL)
    log = Log(delta, "channel")
    batches = [BatchId("it's", number) for number in range(3)]
    for batch in batches:
        rows = LocalRows(spark, effects(batch.number))
        log.append(SparkRows(rows.df) if batch.number == 1 else rows, batch, BatchMetadata())
    log.append(LocalRows(spark, effects(7)), BatchId("other", 1), BatchMetadata())
    for batch in batches:
        scan = log.batch(spark, batch).scan
        assert scan is not None
        assert scan.reads_files
        found = scan.where("live IS NOT NULL").rows(COLUMNS, 100)
        expected = [{name: row[name] for name in COLUMNS} for row in effects(batch.number).to_pylist()[:-1]]
        assert sorted(found.to_pylist(), key=str) == sorted(expected, key=str)
        assert scan.rows(COLUMNS, 2).num_rows == 2
        assert scan.count_by(("live", "emitted")) == {(False, None): 1, (True, "e"): 4, (None, None): 1}
    unknown = log.batch(spark, BatchId("it's", 9))
    assert unknown.scan is not None
    assert not unknown.scan.rows(COLUMNS, 100)
    assert not unknown.count_by("live")
    assert not delta.statistics.native_failures


def test_rows_of_a_log_are_copied_once_by_delta_rs_or_else_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    delta = open_tables(Warehouse(str(tmp_path)).namespace("logs"))
    delta.create_schema(spark)
    delta.create(spark, "channel", CHANNEL)
    log, batch = Log(delta, "channel"), BatchId("it's", 1)
    rows = log.append(SparkRows(LocalRows(spark, effects(1)).df), batch, BatchMetadata())
    assert rows.scan is not None
    live = rows.df.where("live").select("key", "emitted", "live")
    expected = sorted((f"1'{row}", "e") for row in range(1, 5))
    for table, copied_from in (
        ("copied", rows.scan.where("live")),
        ("by_spark", rows.scan.where("no_such_column")),
        ("without_a_scan", None),
    ):
        delta.create(spark, table, Layout("key STRING, emitted STRING"))
        upsert = Upsert(compare=("emitted",), keep="live", sole_writer=True)
        done = delta.merge(spark, live, table, upsert, copied_from)
        assert done.rows == 4
        history = spark.sql(f"DESCRIBE HISTORY {delta.namespace.identifier(table)}").where("version = 1").collect()
        assert ["delta-rs" in commit["engineInfo"] for commit in history] == [table == "copied"]
        assert sorted(map(tuple, delta.read(spark, table).collect())) == expected
        # Another process, taken for dead, fills the table later: its rows are skipped.
        delta.append(spark, live.drop("live"), table, FIRST_ROWS)
        again = delta.merge(spark, live, table, upsert, copied_from)
        assert again.rows == 0
        assert delta.read(spark, table).count() == 4

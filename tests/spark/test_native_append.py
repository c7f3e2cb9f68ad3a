"""Rows on the driver are appended by delta-rs, and now and then by Spark: readers see each row once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kaspr_delta.storage.arrow_types import frame_of
from kaspr_delta.storage.layout import NOT_INDEXED, SUBSCRIPTIONS, TOPIC
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native import tables as native_tables
from kaspr_delta.storage.opening import open_tables
from kaspr_delta.storage.tables import Tables, Transaction


def record(seq: int) -> pa.Table:
    return pa.table({"seq": pa.array([seq], pa.int64())})


def new_table(spark: SparkSession, folder: Path) -> Tables:
    delta = open_tables(Warehouse(str(folder)).namespace("held"))
    delta.create_schema(spark)
    delta.create(spark, "t", TOPIC)
    return delta


def seqs(spark: SparkSession, delta: Tables) -> list[int]:
    stored = [row["seq"] for row in delta.read(spark, "t").select("seq").collect()]
    in_feed = [row["seq"] for row in delta.changes(spark, "t").where("_change_type = 'insert'").select("seq").collect()]
    assert sorted(stored) == sorted(in_feed)
    return sorted(in_feed)


def test_spark_makes_the_appends_that_write_a_checkpoint_of_the_log(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delta = new_table(spark, tmp_path)
    spark.sql(f"ALTER TABLE {delta.namespace.identifier('t')} SET TBLPROPERTIES ('delta.checkpointInterval' = '4')")
    monkeypatch.setattr(native_tables, "CHECKPOINT_INTERVAL", 4)
    for seq in range(10):
        delta.append(spark, record(seq), "t", Transaction(f"batch {seq}", 0))
    assert seqs(spark, delta) == list(range(10))
    log = tmp_path / "held" / "t" / "_delta_log"
    assert {int(file.name[:20]) for file in log.glob("0*.checkpoint*")} >= {4, 8}
    by_spark = {int(file.stem) for file in log.glob("0*.json") if "Apache-Spark" in file.read_text()}
    assert by_spark == {1, 4, 8}


def test_delta_rs_and_spark_recognize_each_others_transactions(spark: SparkSession, tmp_path: Path) -> None:
    delta = new_table(spark, tmp_path)
    one, other = Transaction("one", 0), Transaction("other", 0)
    delta.append(spark, record(1), "t", one)
    delta.append(spark, frame_of(spark, record(2)), "t", one)
    delta.append(spark, frame_of(spark, record(3)), "t", other)
    delta.append(spark, record(4), "t", other)
    delta.append(spark, record(5), "t", Transaction("one", 1))
    assert seqs(spark, delta) == [1, 3, 5]


def test_files_of_delta_rs_and_spark_have_equal_statistics_and_dictionaries(
    spark: SparkSession, tmp_path: Path
) -> None:
    delta = open_tables(Warehouse(str(tmp_path)).namespace("held"))
    delta.create_schema(spark)
    delta.create(spark, "t", SUBSCRIPTIONS)
    rows = pa.table({name: ["text"] * 100 for name in ("key", "fk", "left_hash", "emitted")})
    delta.append(spark, rows, "t")
    delta.append(spark, frame_of(spark, rows), "t")
    files = [pq.read_metadata(file) for file in (tmp_path / "held" / "t").glob("*.parquet")]
    assert {"delta-rs" in file.created_by or "parquet-rs" in file.created_by for file in files} == {True, False}
    for file in files:
        columns = [file.row_group(0).column(number) for number in range(file.num_columns)]
        unlike = {one.path_in_schema: (one.is_stats_set, one.has_dictionary_page) for one in columns}
        assert {name: unlike.pop(name) for name in NOT_INDEXED if name in unlike} == {
            "left_hash": (False, False),
            "emitted": (False, False),
        }
        assert unlike["fk"] == (True, True)

"""What is read, counted and copied of a batch of a log without Spark is what the batch left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kaspr_delta.engine.checkpoint import BatchId
from kaspr_delta.engine.log import Log, Memo
from kaspr_delta.engine.rows import Rows
from kaspr_delta.storage.delta import Delta
from kaspr_delta.storage.layout import CHANNEL, Layout
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ("key", "emitted", "live")


def effects(batch: int) -> pa.Table:
    rows = [{"key": f"{batch}'{row}", "emitted": "e" if row else None, "live": bool(row)} for row in range(5)]
    return pa.Table.from_pylist([*rows, {"key": "refused", "live": None}])


def test_effects_of_one_batch_are_read_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    delta = Delta(Warehouse(str(tmp_path)).namespace("logs"))
    delta.create_schema(spark)
    delta.ensure(spark, "channel", CHANNEL)
    log = Log(delta, "channel")
    batches = [BatchId("it's", number) for number in range(3)]
    for batch in batches:
        rows = Rows.held(spark, effects(batch.number))
        log.append(Rows(rows.df) if batch.number == 1 else rows, batch, Memo())
    log.append(Rows.held(spark, effects(7)), BatchId("other", 1), Memo())
    for batch in batches:
        part = log.batch(spark, batch).part
        assert part is not None
        found = part.where("live IS NOT NULL").read(COLUMNS, 100)
        assert found is not None
        expected = [{name: row[name] for name in COLUMNS} for row in effects(batch.number).to_pylist()[:-1]]
        assert sorted(found.to_pylist(), key=str) == sorted(expected, key=str)
        few = part.read(COLUMNS, 2)
        assert few is not None
        assert few.num_rows == 2
        assert part.count_by(("live", "emitted")) == {(False, None): 1, (True, "e"): 4, (None, None): 1}
        assert part.read(("no such column",), 2) is None
        assert part.count_by(("no such column",)) is None
    unknown = log.batch(spark, BatchId("it's", 9))
    assert unknown.part is not None
    assert not unknown.part.read(COLUMNS, 100)
    assert not unknown.count_by("live")


def test_a_part_of_a_log_is_copied_once_and_where_it_cannot_be_spark_appends_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    delta = Delta(Warehouse(str(tmp_path)).namespace("logs"))
    delta.create_schema(spark)
    delta.ensure(spark, "channel", CHANNEL)
    log, batch = Log(delta, "channel"), BatchId("it's", 1)
    rows = log.append(Rows(Rows.held(spark, effects(1)).df), batch, Memo())
    assert rows.part is not None
    live = rows.df.where("live").select("key", "emitted", "live")
    expected = sorted((f"1'{row}", "e") for row in range(1, 5))
    for table, part in (
        ("copied", rows.part.where("live")),
        ("by_spark", rows.part.where("no_such_column")),
        ("by_nobody_else", None),
    ):
        delta.ensure(spark, table, Layout("key STRING, emitted STRING"))
        done = delta.upsert(live, table, compare=("emitted",), keep="live", ours=True, part=part)
        assert done.rows == 4
        history = spark.sql(f"DESCRIBE HISTORY {delta.namespace.identifier(table)}").where("version = 1").collect()
        assert ["delta-rs" in commit["engineInfo"] for commit in history] == [table == "copied"]
        assert sorted(map(tuple, delta.read(spark, table).collect())) == expected
        # Another process was thought dead, and comes second.
        assert part is None or part.copied(("key", "emitted"), table, Transaction("first", 0))
        again = delta.upsert(live, table, compare=("emitted",), keep="live", ours=True, part=part)
        assert again.rows == 0
        assert delta.read(spark, table).count() == 4

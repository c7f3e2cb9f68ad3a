"""What is read of a batch of a log without Spark is what the batch left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kaspr_delta.engine.log import BatchId, Log, Memo
from kaspr_delta.engine.rows import Rows
from kaspr_delta.storage.delta import Delta
from kaspr_delta.storage.layout import CHANNEL
from kaspr_delta.storage.namespace import Warehouse

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
        found = log.here(batch, COLUMNS, "live IS NOT NULL", 100)
        assert found is not None
        expected = [{name: row[name] for name in COLUMNS} for row in effects(batch.number).to_pylist()[:-1]]
        assert sorted(found.to_pylist(), key=str) == sorted(expected, key=str)
        few = log.here(batch, COLUMNS, "true", 2)
        assert few is not None
        assert few.num_rows == 2
    assert log.here(batches[0], ("no such column",), "true", 2) is None
    unknown = log.here(BatchId("it's", 9), COLUMNS, "true", 2)
    assert unknown is None or unknown.num_rows == 0

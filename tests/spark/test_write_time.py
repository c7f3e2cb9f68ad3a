"""A write without an event has the present time, in a form that no event has, on the driver and in Spark."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.driver_table import write_time
from kaspr_delta.engine.rows.value_functions import EVENT_TIME, write_time_in_spark


def test_a_write_without_an_event_has_a_time_that_no_event_has(spark: SparkSession) -> None:
    before = datetime.now(timezone.utc)
    event = before.replace(microsecond=before.microsecond // 1_000 * 1_000)
    times = spark.createDataFrame([(event, write_time())], "event TIMESTAMP, here TIMESTAMP")
    times = times.withColumn("in_spark", write_time_in_spark())
    names = ("event", "here", "in_spark")
    (row,) = times.select(
        *names, *(F.isnotnull(EVENT_TIME.column(F.col(name))).alias(f"of_{name}") for name in names)
    ).collect()
    assert (row["of_event"], row["of_here"], row["of_in_spark"]) == (True, False, False)
    assert EVENT_TIME.array is not None
    here = pa.chunked_array([pa.array([row[name] for name in names] + [None], pa.timestamp("us", "UTC"))])
    assert EVENT_TIME.array(here).is_valid().to_pylist() == [True, False, False, False]
    for name in ("here", "in_spark"):
        assert abs(row[name].astimezone(timezone.utc) - before) < timedelta(minutes=1)

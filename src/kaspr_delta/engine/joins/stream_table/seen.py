"""The version of a table row that a record of a stream sees: one rule, on the driver and in Spark.

A record sees the last of the row's versions that began before it (see ``streams.table_versions``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.streams.table_versions import VERSION


def with_row(records: Rows, versions: Rows) -> Rows:
    """Add to rows of RECORD, with ``stream_time``, the values of the rows of their ``look_up``.

    ``stored`` is the value that the record sees, ``newest`` the last one of the batch. ``versions`` are those of
    ``table_versions``.
    """
    if isinstance(records, LocalRows) and isinstance(versions, LocalRows):
        return _with_row_here(records, versions)
    rows = by_key(versions.df).withColumnRenamed("key", "look_up")
    met = records.df.join(rows, "look_up", "left")
    met = met.withColumn("stored", seen(F.col("versions"))["value"])
    met = met.withColumn("newest", F.try_element_at("versions", F.lit(-1))["value"])
    return records.made(met.drop("versions"))


def by_key(rows: DataFrame, *also: str) -> DataFrame:
    """All versions of a key in one row: columns key, versions, an array of structs; ``also`` names further fields."""
    return rows.groupBy("key").agg(F.sort_array(F.collect_list(F.struct(*VERSION, *also))).alias("versions"))


def seen(among: Column) -> Column:
    """The one of these versions that a record sees (columns stream_time, arrived): a struct, NULL if there is none."""

    def is_seen(version: Column) -> Column:
        in_time = version["since"].isNull() | (version["since"] <= F.col("stream_time"))
        return in_time & (version["committed"].isNull() | (version["committed"] <= F.col("arrived")))

    return F.try_element_at(F.filter(among, is_seen), F.lit(-1))


def _with_row_here(records: LocalRows, versions: LocalRows) -> Rows:
    by_key = defaultdict[str, list[Mapping[str, Any]]](list)
    for version in versions.table.to_pylist():
        by_key[version["key"]].append(version)
    for several in by_key.values():
        several.sort(key=lambda one: one["order"])
    stored, newest = list[str | None](), list[str | None]()
    columns = (records.table[name].to_pylist() for name in ("look_up", "stream_time", "arrived"))
    for look_up, time, arrived in zip(*columns, strict=True):
        mine = by_key.get(look_up, [])
        stored.append(next((one["value"] for one in reversed(mine) if _sees(one, time, arrived)), None))
        newest.append(mine[-1]["value"] if mine else None)
    table = records.table
    for name, values in (("stored", stored), ("newest", newest)):
        table = table.append_column(name, pa.array(values, pa.string()))
    return LocalRows(records.spark, table)


def _sees(version: Mapping[str, Any], time: Any, arrived: Any) -> bool:
    """Whether a version began before a record: ``seen`` on the driver."""
    in_time = version["since"] is None or (time is not None and version["since"] <= time)
    return in_time and (version["committed"] is None or (arrived is not None and version["committed"] <= arrived))

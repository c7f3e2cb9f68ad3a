"""The version of a table row that a record of a stream sees: one rule, on the driver and in Spark.

A record sees the last of the row's versions that began before it (see ``streams.table_versions``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.streams.table_versions import VERSION

_Version: TypeAlias = Mapping[str, Any]


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
    return SparkRows(met.drop("versions"))


def with_rows(records: Rows, versions: Rows) -> Rows:
    """Repeat rows of RECORD, with ``stream_time``, for each row of the table that refers to their ``look_up``.

    Adds ``row``, the key of that row, and ``right``, its value, both as the record sees it; NULL, once, if it sees
    none. ``versions`` are those of ``table_versions`` with ``fk``, the key that the row refers to.
    """
    if isinstance(records, LocalRows) and isinstance(versions, LocalRows):
        return _with_rows_here(records, versions)
    each = by_key(versions.df, "fk").withColumn("look_up", F.explode(F.array_distinct("versions.fk")))
    met = each.groupBy("look_up").agg(F.collect_list(F.struct("key", "versions")).alias("rows"))
    rows = F.transform("rows", lambda row: F.struct(row["key"].alias("key"), seen(row["versions"]).alias("seen")))
    holding = F.filter(rows, lambda row: row["seen"]["fk"] == F.col("look_up"))
    repeated = records.df.join(met, "look_up", "left").withColumn("_row", F.explode_outer(holding)).drop("rows")
    added = {"row": F.col("_row.key"), "right": F.col("_row.seen.value")}
    return SparkRows(repeated.withColumns(added).drop("_row"))


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
    rows = _versions_by_key(versions)
    seen_values, newest = list[str | None](), list[str | None]()
    for record in _seeing(records):
        mine = rows.get(record["look_up"], [])
        found = _seen_by(record, mine)
        seen_values.append(None if found is None else found["value"])
        newest.append(mine[-1]["value"] if mine else None)
    table = records.table.append_column("stored", pa.array(seen_values, pa.string()))
    return LocalRows(records.spark, table.append_column("newest", pa.array(newest, pa.string())))


def _with_rows_here(records: LocalRows, versions: LocalRows) -> Rows:
    rows = _versions_by_key(versions)
    referring = defaultdict[str, set[str]](set)
    for key, several in rows.items():
        for one in several:
            referring[one["fk"]].add(key)
    places, keys, values = list[int](), list[str | None](), list[str | None]()
    for place, record in enumerate(_seeing(records)):
        look_up = record["look_up"]
        candidates = () if look_up is None else sorted(referring.get(look_up, ()))
        all_seen = ((key, _seen_by(record, rows[key])) for key in candidates)
        held = [(key, one["value"]) for key, one in all_seen if one is not None and one["fk"] == look_up]
        places += [place] * max(1, len(held))
        keys += [key for key, _ in held] or [None]
        values += [value for _, value in held] or [None]
    table = records.table.take(pa.array(places, pa.int64())).append_column("row", pa.array(keys, pa.string()))
    return LocalRows(records.spark, table.append_column("right", pa.array(values, pa.string())))


def _versions_by_key(versions: LocalRows) -> Mapping[str, Sequence[_Version]]:
    found = defaultdict[str, list[_Version]](list)
    for version in sorted(versions.table.to_pylist(), key=itemgetter("order")):
        found[version["key"]].append(version)
    return found


def _seeing(records: LocalRows) -> Iterator[Mapping[str, Any]]:
    return iter(records.table.select(["look_up", "stream_time", "arrived"]).to_pylist())


def _seen_by(record: Mapping[str, Any], several: Sequence[_Version]) -> _Version | None:
    """``seen`` on the driver."""
    time, arrived = record["stream_time"], record["arrived"]
    for version in reversed(several):
        since, committed = version["since"], version["committed"]
        in_time = since is None or (time is not None and since <= time)
        if in_time and (committed is None or (arrived is not None and committed <= arrived)):
            return version
    return None

"""Handles to read the results of joins: tables and streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.api.export import write_rows
from kaspr_delta.api.table import Pairs, as_dict
from kaspr_delta.api.topic import ChannelHandle
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.typed_columns import as_text
from kaspr_delta.errors import UsageError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import StreamJoinPlan, TableTableJoinPlan
from kaspr_delta.serde.joined_text import JoinedText, json_columns
from kaspr_delta.storage.layout import PAIR
from kaspr_delta.storage.spark.decoded import by_key, decoded
from kaspr_delta.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class JoinHandle:
    """The result table of a join of two tables."""

    spark: SparkSession
    delta: Tables
    join: TableTableJoinPlan
    application: Plan

    def get(self, key: Any) -> Any:
        """The result for a key, ``{"left":…, "right":…}`` or the selected columns; None if there is none."""
        found = self.rows_of(key)
        return found[0][1] if found else None

    def rows(self) -> Pairs:
        """All results, ordered by key text, as pairs of key and ``{"left":…, "right":…}`` or the selected columns."""
        return self._pairs(self._read())

    def rows_of(self, key: Any) -> Pairs:
        """The result for a key in the form of ``rows``; empty if there is none."""
        return self._pairs(self._read().where(F.col("key") == self._texts.keys.key(key)))

    def to_dict(self) -> dict[Any, Any]:
        """All results by key. Raises UsageError if two keys are equal in Python."""
        return as_dict(self.rows(), self.join.name)

    @property
    def df(self) -> DataFrame:
        """The result table with decoded columns: key, left, right and timestamp, or key and the selected columns.

        Types are those of typed tables, or inferred from the rows.
        """
        return self._decoded(self._read())

    def export(self, path: str, file_format: str | None = None) -> int:
        """Write all results, ordered by key, to one CSV or Parquet file, with the columns of ``df``.

        Returns the number of results. Keys of several types are ordered: numbers by value, then all others by JSON
        text. See ``export.write_rows``. Raises UsageError.
        """
        ordered = by_key(self._read()) if "key" in self._json_columns else self._read().orderBy("key")
        return write_rows(self._decoded(ordered), path, file_format, flat=True)

    def _decoded(self, rows: DataFrame) -> DataFrame:
        if self.join.select is not None:
            return decoded(rows.drop(PAIR), tuple(name for name in self._json_columns if name == "key"))
        return decoded(rows, self._json_columns)

    @property
    def _json_columns(self) -> tuple[str, ...]:
        return json_columns(self.join, self.application)

    def _read(self) -> DataFrame:
        return self.delta.read(self.spark, self.join.result)

    @property
    def _texts(self) -> JoinedText:
        return JoinedText.of(self.join, self.application)

    def _pairs(self, rows: DataFrame) -> Pairs:
        if self.join.select is not None:
            result = KeyedTable(self.delta, self.application.table_or_result(self.join.name))
            found = rows.select("key", result.value).orderBy("key").collect()
            return [(result.text.key_object(row["key"]), result.text.value_object(row["value"])) for row in found]
        texts, rows = self._texts, as_text(rows, self.application.column_types(self.join))
        return [(texts.key(row["key"]), texts.value(row.asDict())) for row in rows.orderBy("key").collect()]


@dataclass(frozen=True, slots=True)
class StreamJoinHandle:
    """A join with a stream: its result is the stream of records that it emits."""

    join: StreamJoinPlan
    channel: ChannelHandle

    def records(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The results in order, from the start, at most ``limit``, as ``ChannelHandle.records`` returns them."""
        return self.channel.records(limit)

    @property
    def df(self) -> DataFrame:
        """The results with decoded columns, as in ``ChannelHandle.df``."""
        return self.channel.df

    def get(self, *_: object, **__: object) -> NoReturn:
        """Raises UsageError: a stream has no value per key."""
        name, channel = self.join.name, self.join.channel
        msg = f"join {name!r} gives a stream, which has no current value per key: use records(), or"
        raise UsageError(f"{msg} `kaspr-delta consume {channel}`, or make a table with `from: {{join: {name}}}`")

    rows = rows_of = to_dict = export = get

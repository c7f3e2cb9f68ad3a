"""Handles to read the results of joins: tables and streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from kaspr_delta.api.explanation import Explanation
from kaspr_delta.api.export import write_rows
from kaspr_delta.api.frames import Frames, inferred, table_of
from kaspr_delta.api.table import Pairs, as_dict
from kaspr_delta.api.topic import ChannelHandle
from kaspr_delta.control.follow import Follower
from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import StreamJoinPlan, TableTableJoinPlan
from kaspr_delta.serde.files.untyped import number_first
from kaspr_delta.serde.joined_text import JoinedText, json_columns, sides_as_text
from kaspr_delta.serde.json_text import parse
from kaspr_delta.serde.typed_text import text_of
from kaspr_delta.serde.typed_values import column_text
from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.layout import PAIR, WRITTEN_AT
from kaspr_delta.storage.session_reads import row_reads
from kaspr_delta.storage.tables import Scan, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class JoinHandle(Frames):
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
        return self._pairs(self._scan())

    def key_of_line(self, key: Any) -> Any:
        """The key that a key of JSON lines stands for, as `kaspr-delta table NAME dump` prints it."""
        return self._texts.keys.of_line(key)

    def rows_of(self, key: Any) -> Pairs:
        """The result for a key in the form of ``rows``; empty if there is none."""
        text = self._texts.keys.key(key)
        return self._pairs(self._scan().where("key = {key}", key=text))

    def explain(self, key: Any) -> Explanation:
        """Why the result for a key is as it is: its rows from the left table to the result, and what follows from them.

        The value prints as text; a notebook shows it as tables. The tables are read as they are now, one after another:
        while the application runs they may be of different batches.
        """
        found = Follower(row_reads(self.spark, self.delta), self.application, self.join).follow(
            [self._texts.keys.key(key)]
        )
        return Explanation(str(self.join.ref), key, found.stations, found.reasons)

    def to_arrow(self) -> pa.Table:
        """All results with key, left and right, or key and the selected columns; types are inferred from the rows."""
        rows = self.rows()
        columns = {name: [value[name] for _, value in rows] for name in self._shown}
        return table_of({"key": [key for key, _ in rows], **columns})

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
        """Write all results, ordered by key, to one CSV or Parquet file, with the columns that the join shows.

        Returns the number of results. Numbers come first, then all other keys by JSON text. See
        ``export.write_rows``. Raises UsageError.
        """
        decoded = self._json_columns if self.join.select is None else {*self._json_columns} & {"key"}
        types = self._types()
        if not types:  # it never ran
            return write_rows(
                pa.table({name: pa.array([], pa.string()) for name in ("key", "left", "right")}), {}, path, file_format
            )
        rows = self._scan().rows(list(types)).sort_by("key")
        if "key" in decoded:
            keys = rows["key"].to_pylist()
            rows = rows.take(sorted(range(len(keys)), key=lambda number: number_first(keys[number])))
        for name in decoded:
            values = [None if text is None else _parsed(text) for text in rows[name].to_pylist()]
            rows = rows.set_column(rows.column_names.index(name), name, inferred(values))
        return write_rows(rows, {name: of for name, of in types.items() if name not in decoded}, path, file_format)

    def _types(self) -> dict[str, Type]:
        """The columns of the stored result that are shown, with their types; none before the first run."""
        if not self.delta.exists(self.spark, self.join.result):
            return {}
        types = {column.name: column.type for column in self.delta.columns(self.spark, self.join.result)}
        names = ("key", *self._shown, "timestamp" if self.join.select is None else WRITTEN_AT)
        return {name: types[name] for name in names if name in types}

    @property
    def _shown(self) -> tuple[str, ...]:
        """The columns beside the key: the sides, or those that the join selects."""
        if self.join.select is None:
            return ("left", "right")
        row = self.application.table_or_result(self.join.name).row_type
        return () if row is None else tuple(column.name for column in row.fields)

    def _decoded(self, rows: DataFrame) -> DataFrame:
        from kaspr_delta.storage.spark.decoded import decoded

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

    def _scan(self) -> Scan:
        return self.delta.scan(self.spark, self.join.result)

    def _pairs(self, scan: Scan) -> Pairs:
        if not self.delta.exists(self.spark, self.join.result):  # it never ran
            return []
        if self.join.select is not None:
            return self._selected(scan)
        rows = sides_as_text(scan.rows(["key", "left", "right"]).sort_by("key"), self.join, self.application)
        texts = self._texts
        return [(texts.key(row["key"]), texts.value(row)) for row in rows.to_pylist()]

    def _selected(self, scan: Scan) -> Pairs:
        plan = self.application.table_or_result(self.join.name)
        row, text = plan.row_type, text_of(plan)
        if row is None:
            msg = f"the result of join {self.join.name!r} has no columns"
            raise LookupError(msg)
        has = {column.name for column in self.delta.columns(self.spark, self.join.result)}
        names = [column.name for column in row.fields if column.name in has]
        rows = scan.rows(["key", *names]).sort_by("key")
        values = column_text(row, rows.select(names).to_pylist())
        return [
            (text.key_object(key), text.value_object(value or ""))
            for key, value in zip(rows["key"].to_pylist(), values, strict=True)
        ]


def _parsed(text: str) -> Any:
    try:
        return parse(text)
    except SerializationError:
        return None


@dataclass(frozen=True, slots=True)
class StreamJoinHandle(Frames):
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

    rows = rows_of = key_of_line = to_dict = export = explain = get

    def to_arrow(self) -> pa.Table:
        """The results as ``ChannelHandle.to_arrow`` returns them."""
        return self.channel.to_arrow()

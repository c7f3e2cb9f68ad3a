"""A table of rows by key as the engine reads and writes it: of a KasprTable, of others, of a result, of windows.

Live rows are JSON text or, in a typed table, STRUCTs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.local_rows import LocalRows, few_or_all
from kaspr_delta.engine.rows.row_texts import upsert_of
from kaspr_delta.engine.rows.rows import FALSE, TRUE, Rows, ValueFunction, exists, text
from kaspr_delta.engine.rows.rows_by_key import Keys, among, found_rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.rows.typed_columns import (
    by_name,
    comparable,
    key_columns,
    key_text,
    row_hash,
    row_of,
    row_text,
)
from kaspr_delta.engine.rows.value_functions import (
    ALWAYS,
    IS_JSON,
    TEXT_HASH,
    UNCHANGED,
    base64_of,
    bytes_of,
    in_lines,
    on_one_line,
    write_time_in_spark,
)
from kaspr_delta.plan.definition.resources import SerializerName, TablePlan
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.serde.typed_text import text_of
from kaspr_delta.spec.ddl import columns_of_json, quoted
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import COMMIT_COLUMNS, WRITTEN_AT
from kaspr_delta.storage.lazy_session import because
from kaspr_delta.storage.tables import Commit, Scan, Tables

# The rows of windows of a stream that have ended.
_ENDED = "stream = {stream} AND window_end <= {end}"
CHANGED = "side STRING, key STRING, changed_at TIMESTAMP, version BIGINT"
"""The columns of changed keys: the time and the version of the commit that changed them."""

_TIME = pa.timestamp("us", "UTC")


def changed_keys(  # noqa: PLR0913, PLR0917  the table, and what is said of its keys
    delta: Tables, spark: SparkSession, table: str, side: str, commit: Commit, version: int | None = None
) -> Rows:
    """The keys of a table that stores them as text, at a version, as if the commit had changed them: CHANGED.

    On the driver if they are few and no Spark job is needed.
    """
    return _changed(few_or_all(delta.scan(spark, table, version), spark, ("key",), delta.limits.changes), side, commit)


def _changed(keys: Rows, side: str, commit: Commit) -> Rows:
    version = nw.lit(commit.version, nw.Int64)
    rows = keys.with_columns(side=text(side), changed_at=nw.lit(commit.at), version=version)
    return rows.select("side", "key", "changed_at", "version")


@dataclass(frozen=True, slots=True)
class KeyedTable:
    """One table with keys: of the application, of others, or the result of a join."""

    delta: Tables
    plan: TablePlan

    @property
    def text(self) -> TableText:
        """The text form of this table's keys and values."""
        return text_of(self.plan)

    @property
    def key(self) -> Column:
        """The key column as text."""
        if self.plan.joined:
            # Older versions wrote base64 with line breaks, and the join may not have run since.
            return on_one_line(F.col("key")).alias("key") if self.has_raw_keys else F.col("key")
        if self.plan.typed:
            columns = [F.col(quoted(name)) for name in self.plan.typed.key]
            return key_text(columns, self.plan.typed.key_types).alias("key")
        return _as_text("key", self.plan.serializers.key)

    @property
    def has_raw_keys(self) -> bool:
        """Whether keys are bytes, which the engine has as base64 text."""
        return self.plan.serializers.key == "raw"

    def as_bytes(self, key: Column) -> Column:
        """A key of ``key`` as bytes, as on a topic."""
        return bytes_of(key) if self.has_raw_keys else key.cast("binary")

    @property
    def value(self) -> Column:
        return self.text_form.column(self.row).alias("value")

    @property
    def row(self) -> Column:
        """The value: a STRUCT in a typed table, else text, for a join's result a JSON object with both sides."""
        if self.plan.row_type is not None:
            return F.struct(*(F.col(quoted(column.name)) for column in self.plan.row_type.fields)).alias("value")
        if self.plan.joined is None:
            return _as_text("value", self.plan.serializers.value)
        left, right = map(_as_json, ("left", "right"), self.plan.joined)
        return F.concat(F.lit('{"left":'), left, F.lit(',"right":'), right, F.lit("}")).alias("value")

    def _row_in(self, stored: DataFrame) -> Column:
        """The value of stored rows; a STRUCT has its fields in the order in which a join stores them."""
        if self.plan.row_type is None:
            return self.row
        (has,) = columns_of_json(stored.select(self.row).schema.jsonValue()["fields"])
        return by_name(self.row, has.type, self.plan.row_type).alias("value")

    @property
    def timestamp(self) -> Column:
        """The time at which a row was written; NULL where only its commit has one."""
        if self.plan.typed is None:
            return F.col("timestamp")
        return (F.lit(None).cast("timestamp") if self.plan.is_foreign else F.col(WRITTEN_AT)).alias("timestamp")

    @property
    def has_json_text(self) -> bool:
        """Whether values are JSON text in one column, which may be invalid: anybody may write it."""
        return self.plan.row_type is None and self.plan.serializers.value == "json"

    @property
    def has_row(self) -> nw.Expr:
        """Whether a stored value is a row: neither NULL nor JSON's null."""
        return exists("value") & (nw.col("value") != "null") if self.has_json_text else exists("value")

    @property
    def hash(self) -> ValueFunction:
        """The hash of a value of ``live_rows``."""
        if self.plan.row_type is not None:
            return ValueFunction(row_hash)
        return ValueFunction(lambda text: F.md5(in_lines(text))) if self.plan.serializers.value == "raw" else TEXT_HASH

    @property
    def readable(self) -> ValueFunction:
        """Whether a value of ``live_rows`` is valid for its serializer."""
        return IS_JSON if self.has_json_text else ALWAYS

    @property
    def text_form(self) -> ValueFunction:
        """A value of ``live_rows`` as text."""
        return UNCHANGED if self.plan.row_type is None else ValueFunction(row_text)

    def scan(self, spark: SparkSession, commit: Commit) -> Scan | None:
        """All stored rows at a version, null values too; None unless keys are stored as text."""
        plain = self.plan.typed is None and self.plan.joined is None and self.plan.serializers.key != "raw"
        return self.delta.scan(spark, self.plan.delta_name, commit.version) if plain else None

    def newest(self, spark: SparkSession) -> Commit:
        """The newest version."""
        return self.delta.newest(spark, self.plan.delta_name)

    def pin(self, spark: SparkSession, upto: int | None) -> Commit:
        """The version to pin for a batch that has read the feed up to a version; None: it is not known."""
        return self.delta.pin(spark, self.plan.delta_name, upto)

    def feed(self, spark: SparkSession, side: str, after: int) -> DataFrame:
        """The keys that changed after a version, as a stream.

        Columns side, key, changed_at and version: the time and the version of the commit.
        """
        changes = self.delta.stream_after(spark, self.plan.delta_name, after, self.delta.limits.feed_batch)
        at, version = F.col("_commit_timestamp").alias("changed_at"), F.col("_commit_version").alias("version")
        return changes.select(F.lit(side).alias("side"), self.key, at, version)

    def arrived(self, spark: SparkSession, side: str, after: int, upto: int) -> Rows | None:
        """The rows of ``feed`` up to a version, on the driver; None if only Spark reads them, or if they are many."""
        if not self.has_text:
            return None
        if after >= upto:
            return LocalRows.none(spark, CHANGED)
        feed = self.delta.changes_here(self.plan.delta_name, after + 1, upto, self.delta.limits.changes, ("key",))
        if feed is None:
            return None
        columns = {"side": pa.repeat(side, feed.num_rows), "key": feed["key"]}
        columns |= {"changed_at": feed["_commit_timestamp"], "version": feed["_commit_version"]}
        schema = arrow_schema(CHANGED)
        return LocalRows(spark, pa.table([columns[of.name].cast(of.type) for of in schema], schema=schema))

    def keys(self, spark: SparkSession, side: str, commit: Commit) -> Rows:
        """All keys at a version, as if its commit had changed them. Columns as in ``feed``."""
        if self.has_text:
            return changed_keys(self.delta, spark, self.plan.delta_name, side, commit, commit.version)
        because(spark, f"only Spark reads the keys of '{self.plan.delta_name}'")
        rows = self.delta.read(spark, self.plan.delta_name, commit.version)
        return _changed(SparkRows(rows.select(self.key)), side, commit)

    def live_rows(
        self,
        spark: SparkSession,
        version: int | None = None,
        keys: Keys = None,
        *,
        unique_keys: bool = False,
        few: bool = False,
    ) -> Rows:
        """Rows at a version (the newest, when None), one per key: columns key, value, timestamp, duplicate_count.

        In a table with windows one per key and window: also window_start and window_end. ``keys`` restricts them to
        those in its column ``key`` (and ``window_start``), or to known texts. Delta has no unique keys: of several rows
        of one key the newest by timestamp counts, then the greatest value, the same choice every time;
        ``duplicate_count`` tells how many there were. A NULL value is no row. Values are as the table has them: text,
        or STRUCTs where rows have a type. ``unique_keys``: it is known that no key has several rows.
        ``few``: all rows are wanted on the driver, if they fit there and no Spark job is needed.
        """
        rows = self._stored_rows(spark, version, keys, few=few).filter(exists("key") & self.has_row)
        if unique_keys:
            return rows.with_columns(duplicate_count=nw.lit(1))
        live = rows.newest(self.plan.row_key_columns, self._order, "duplicate_count")
        return live if self._is_ordered else live.drop("rank")

    def with_text_values(self, rows: Rows) -> Rows:
        """Rows with a column ``value`` as JSON text."""
        return rows if self.plan.row_type is None else rows.made(rows.df.withColumn("value", row_text(F.col("value"))))

    @property
    def _is_ordered(self) -> bool:
        """Whether Spark compares values: it compares no maps."""
        return self.plan.row_type is None or not any(part.name == "MAP" for part in self.plan.row_type.parts())

    @property
    def _order(self) -> tuple[str, str]:
        """The columns by which the greatest of several rows of one key counts."""
        return "timestamp", "value" if self._is_ordered else "rank"

    def _ranked(self, rows: DataFrame) -> Rows:
        """Rows with all columns of ``_order``."""
        if not self._is_ordered:
            rows = rows.withColumn("rank", comparable(F.col("value"), self.plan.row_type))
        return SparkRows(rows)

    @property
    def has_text(self) -> bool:
        """Whether the table stores keys and values as the text that the engine has."""
        values = (of.serializers.value for of in self.plan.joined or (self.plan,))
        return not self.plan.has_types and "raw" not in {self.plan.serializers.key, *values}

    @property
    def _texts(self) -> tuple[str, ...]:
        """The columns that have the value in a table that ``has_text``: ``_with_value`` makes it of them."""
        return ("value",) if self.plan.joined is None else ("left", "right")

    def _with_value(self, rows: Rows) -> Rows:
        if self.plan.joined is None:
            return rows
        left, right = (nw.coalesce(nw.col(side), text("null")) for side in ("left", "right"))
        value = nw.concat_str(text('{"left":'), left, text(',"right":'), right, text("}"))
        return rows.with_columns(value=value).drop("left", "right")

    def _stored_rows(self, spark: SparkSession, version: int | None, keys: Keys, *, few: bool = False) -> Rows:
        """Stored rows of these keys: columns key, value, timestamp, those of windows, and rank unless ``_is_ordered``.

        On the driver if the table stores text, the keys are known texts, and no Spark job is needed.
        """
        table, windows = self.plan.delta_name, ("window_start", "window_end") if self.plan.window else ()
        columns = ("key", *self._texts, "timestamp", *windows)
        known = keys.distinct("key") if isinstance(keys, LocalRows) else keys
        if self.has_text and isinstance(known, Collection):
            found = found_rows(self.delta, spark, table, {"key": known}, version).select(*columns)
            if windows and isinstance(keys, LocalRows):
                found = found.join(keys, [*self.plan.row_key_columns], "left_semi")
            return self._with_value(found)
        if self.has_text and few:
            scan = self.delta.scan(spark, table, version)
            return self._with_value(few_or_all(scan, spark, columns, self.delta.limits.looked_up))
        stored = self.delta.read(spark, table, version)
        rows = stored.select(self.key, self._row_in(stored), self.timestamp, *windows)
        return SparkRows(among(self._ranked(rows).df, keys, self.plan.row_key_columns, self.delta))

    def changes(self, spark: SparkSession, after: int, upto: int) -> Rows:
        """The rows that changed after a version, up to and with another one, as they were and became.

        Columns key, value and timestamp (see ``live_rows``), is_new, version, and at, the time of the commit. On the
        driver if the table stores text, they are few, and no Spark job is needed.
        """
        table, stored, here = self.plan.delta_name, ("key", *self._texts, "timestamp"), None
        if self.has_text:
            here = self.delta.changes_here(table, after + 1, upto, self.delta.limits.few, stored)
        if here is None:
            feed = self.delta.changes(spark, table, after + 1, upto)
            rows = self._ranked(feed.select(self.key, self.row, self.timestamp, *COMMIT_COLUMNS))
        else:
            types = {"timestamp": _TIME, "_commit_timestamp": _TIME, "_commit_version": pa.int64()}
            fields = (pa.field(of.name, types.get(of.name, of.type)) for of in here.schema)
            rows = self._with_value(LocalRows(spark, here.cast(pa.schema(fields))))
        is_new = (nw.col("_change_type") == "insert") | (nw.col("_change_type") == "update_postimage")
        given = rows.with_columns(is_new=is_new, version=nw.col("_commit_version"), at=nw.col("_commit_timestamp"))
        return given.drop(*COMMIT_COLUMNS)

    def greatest(self, rows: Rows, on: Sequence[str], *first: str) -> Rows:
        """Of rows of ``changes`` with equal columns ``on`` the greatest one by ``first``, then as in ``live_rows``."""
        return rows.newest(on, (*first, *self._order))

    def write(self, given: Rows, *, timely: bool = False) -> None:
        """Bring keys to given values: columns key, value (text; NULL deletes), timestamp, one row per key.

        For a table with windows also window_start and stream, one row per key and window. A stored row with the same
        value is not written, unless it is ``timely`` and its timestamp differs.
        """
        self._merge(self.as_stored(given), timely=timely)

    def as_stored(self, given: Rows) -> Rows:
        """Rows for ``write`` as the table stores them, with the column ``keep``."""
        if self.has_text:
            given, windows = given.with_columns(keep=exists("value")), list[str]()
            if self.plan.window is not None:
                given = given.derive("window_end", _later_by(self.plan.window.size), "window_start")
                windows = ["window_start", "window_end", "stream"]
            return given.select("key", "value", "timestamp", *windows, "keep")
        return given.made(self._to_stored(given.df))

    def _to_stored(self, rows: DataFrame) -> DataFrame:
        typed, keep = self.plan.typed, F.col("value").isNotNull().alias("keep")
        if typed is not None:
            # The key's columns come from the key, not from the value.
            keys = zip(typed.key, key_columns(F.col("key"), typed.key_types), strict=True)
            key = [column.alias(name) for name, column in keys]
            rest = [F.col("row")[one.name].alias(one.name) for one in typed.rest]
            rows = rows.withColumn("row", row_of(F.col("value"), typed.row))
            return rows.select(*key, *rest, F.col("timestamp").alias(WRITTEN_AT), keep)
        serializers = self.plan.serializers
        columns = [_to_stored("key", serializers.key), _to_stored("value", serializers.value), F.col("timestamp")]
        if self.plan.window is not None:
            end = _later_by(self.plan.window.size).column(F.col("window_start")).alias("window_end")
            columns += [F.col("window_start"), end, F.col("stream")]
        return rows.select(*columns, keep)

    def put_rows(self, rows: DataFrame) -> None:
        """Write rows of a typed table, given as columns: those of the key, and any others of the table.

        Each key occurs once. Columns that are not given become null. Raises LookupError for a table without columns.
        """
        if self.plan.typed is None:
            msg = f"table {self.plan.name!r} has no columns"
            raise LookupError(msg)
        missing = [one for one in self.plan.typed.columns if one.name not in rows.columns]
        rows = rows.withColumns({one.name: F.lit(None).cast(str(one.type)) for one in missing}) if missing else rows
        self._merge(SparkRows(rows.withColumns({WRITTEN_AT: write_time_in_spark(), "keep": F.expr("true")})))

    def show(self, spark: SparkSession, source: str, stream: str, after: datetime | None, upto: datetime) -> None:
        """Copy the rows of a stream whose windows end in a span of time from another Delta table."""
        rows = self.delta.scan(spark, source).where(_ENDED, stream=stream, end=upto)
        rows = rows if after is None else rows.where("window_end > {after}", after=after)
        self._merge(self._windows(rows, spark).with_columns(keep=TRUE))

    def expire(self, spark: SparkSession, stream: str, upto: datetime) -> None:
        """Remove the rows of a stream whose windows end up to a time."""
        rows = self._windows(self.delta.scan(spark, self.plan.delta_name).where(_ENDED, stream=stream, end=upto), spark)
        if isinstance(rows, LocalRows):  # each row key once: SQL may have written one twice
            once = rows.newest(self.plan.row_key_columns, self._order)
            self._merge(once.with_columns(keep=FALSE))
        else:
            self.delta.delete(spark, self.plan.delta_name, _ENDED, stream=stream, end=upto)

    def _windows(self, scan: Scan, spark: SparkSession) -> Rows:
        """Rows as the table stores them: on the driver if they are few and no Spark job is needed."""
        values = ("key", "value", "timestamp", "window_start", "window_end", "stream")
        return few_or_all(scan, spark, values, self.delta.limits.few)

    def _merge(self, stored: Rows, *, timely: bool = False) -> None:
        """Merge rows as the table stores them; those without ``keep`` are deleted. ``timely`` as in ``write``."""
        self.delta.merge(stored.spark, stored.frame, self.plan.delta_name, upsert_of(self.plan, timely=timely))


def state_table(delta: Tables, plan: TablePlan) -> KeyedTable:
    """The table that functions read and write: another one if windows show only when they close."""
    return KeyedTable(delta, replace(plan, delta_name=plan.state))


def _as_text(column: str, serializer: SerializerName) -> Column:
    return (base64_of(F.col(column)) if serializer == "raw" else F.col(column)).alias(column)


def _as_json(column: str, side: TablePlan) -> Column:
    """A column of a join's result as JSON, with bytes as base64."""
    json = F.col(column) if side.row_type is None else row_text(F.col(column))
    if side.serializers.value == "raw":
        json = F.concat(F.lit('"'), on_one_line(json), F.lit('"'))
    return F.coalesce(json, F.lit("null"))


def _to_stored(column: str, serializer: SerializerName) -> Column:
    return (bytes_of(F.col(column)) if serializer == "raw" else F.col(column)).alias(column)


def _later_by(milliseconds: int) -> ValueFunction:
    """A time so much later."""
    length = pa.scalar(milliseconds * 1_000, pa.duration("us"))
    return ValueFunction(
        lambda time: F.timestamp_millis(F.unix_millis(time) + milliseconds), lambda times: pc.add(times, length)
    )

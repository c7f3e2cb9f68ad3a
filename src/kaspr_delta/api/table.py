"""The handle to write, read, load and export a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.api.column_files import load_columns
from kaspr_delta.api.given import keys_given, rows_given
from kaspr_delta.api.row_files import Pairs, format_of, pairs_of, pairs_of_file, write_file
from kaspr_delta.engine.agent.step import HAS_WINDOWS
from kaspr_delta.engine.agent.table import WRITTEN_BY_OTHERS
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.write_time import write_time
from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.layout import WRITTEN_AT
from kaspr_delta.storage.spark.decoded import by_key, decoded
from kaspr_delta.storage.spark.frames import collected


class Windowed(NamedTuple):
    """The key of a row in a table with windows. Moments are in UTC; the end is exclusive."""

    key: Any
    window_start: datetime
    window_end: datetime


@dataclass(frozen=True, slots=True)
class TableHandle:
    """A KasprTable. ``made_from`` names the resource that it is made from: then it is read-only."""

    spark: SparkSession
    table: KeyedTable
    made_from: str | None = None

    def put(self, rows: Mapping[Any, Any] | Iterable[tuple[Any, Any] | Mapping[str, Any]]) -> None:
        """Write rows in one commit: a mapping, pairs (for keys that no dictionary can have), or records.

        A record is ``{"key": …, "value": …}``. A value of None deletes the row. Of several rows with one key the last
        counts. Raises SerializationError, and UsageError for an item that is no row (see ``given.rows_given``) and for
        a table that has windows, is made from another resource, or is written by others.
        """
        texts = self.table.text
        self._write({texts.key(key): texts.row(key, value) for key, value in rows_given(rows)})

    def load(self, source: str, *, key: str | Sequence[str] = (), file_format: str | None = None) -> int:
        """Write the rows of a file in one commit. Returns the number of rows.

        ``source`` is a file of JSON lines, CSV or Parquet, the folder of a Delta table, or with ``file_format="delta"``
        also the name of a Delta table. Without ``key``, rows have a key and a value. With ``key``, one column or
        several, these columns are a row's key, and its value is an object of all columns. See
        ``row_files.pairs_of_file``. A typed table without ``key`` finds its own columns in CSV, Parquet and Delta: see
        ``column_files.load_columns``. Raises UsageError and SerializationError before anything is written.
        """
        columns, known = ((key,) if isinstance(key, str) else tuple(key)), format_of(source, file_format)
        typed = self.table.plan.typed
        if typed is not None and known != "json" and not columns:
            self._refuse_foreign()
            return load_columns(self.spark, self.table, typed, source, known)
        if known == "delta":
            source_path = str(Path(source).absolute()) if Path(source).is_dir() else source
            rows = collected(self.table.delta.read_elsewhere(self.spark, source_path)).to_pylist()
            pairs = list(pairs_of(rows, source, columns))
        else:
            pairs = pairs_of_file(source, known, columns)
        self.put(pairs)
        return len(pairs)

    def export(self, path: str, file_format: str | None = None) -> int:
        """Write all rows, ordered by key, to one CSV or Parquet file, with the columns of ``df``.

        Returns the number of rows. Keys of several types are ordered: numbers by value, then all others by JSON text.
        See ``row_files.write_file``. Raises UsageError.
        """
        typed = self.table.plan.typed
        if typed is not None:
            return write_file(self.df.orderBy(*map(quoted, typed.key)), path, file_format)
        rows, columns = self._live, self.table.row_key_columns
        ordered = by_key(rows, *columns[1:]) if self.table.plan.serializers.key == "json" else rows.orderBy(*columns)
        return write_file(self._decoded(ordered), path, file_format)

    def delete(self, keys: Any) -> None:
        """Delete one key, or several (a list, a set …), in one commit. A missing key is no error.

        A tuple or a dictionary is one key. Raises UsageError for a record.
        """
        self._write({self.table.text.key(key): None for key in keys_given(keys)})

    def get(self, key: Any) -> Any:
        """The value of a key, in a table with windows that of the newest window. None if there is none."""
        found = self.rows_of(key)
        return found[-1][1] if found else None

    def rows(self) -> Pairs:
        """All rows as pairs of key and value, ordered by key text; in a table with windows the keys are ``Windowed``.

        Rows that SQL wrote with a key or value that the table's serializers cannot read are left out. SQL shows them.
        """
        return self._pairs(self.table.live_rows(self.spark))

    def rows_of(self, key: Any) -> Pairs:
        """The rows of one key in the form of ``rows``: one or none, in a table with windows all, ordered by time."""
        rows = self.table.live_rows(self.spark, keys=[self.table.text.key(key)])
        return self._pairs(rows)

    def to_dict(self) -> dict[Any, Any]:
        """All rows by key; list keys as tuples. Raises UsageError if two keys are equal in Python."""
        return as_dict(self.rows(), self.table.plan.name)

    @property
    def df(self) -> DataFrame:
        """The table with decoded columns: key, value and timestamp, with types inferred from the rows.

        A table with windows also has window_start and window_end. A typed table has its own columns and ``_timestamp``.
        """
        if self.table.plan.typed is not None:
            rows = self.table.live_rows(self.spark).df
            return rows.select("value.*", F.col("timestamp").alias(WRITTEN_AT))
        return self._decoded(self._live)

    @property
    def _live(self) -> DataFrame:
        """The live rows, with values as JSON text."""
        return self.table.with_text_values(self.table.live_rows(self.spark)).df

    def _decoded(self, rows: DataFrame) -> DataFrame:
        """Live rows with the JSON of their keys and values as typed columns."""
        windows = ("window_start", "window_end") if self.table.plan.window else ()
        return decoded(rows.select("key", *windows, "value", "timestamp"), self.table.plan.serializers.json_columns)

    def _refuse_foreign(self) -> None:
        if self.table.plan.is_foreign:
            raise UsageError(WRITTEN_BY_OTHERS.format(self.table.plan.name))

    def _pairs(self, rows: Rows) -> Pairs:
        order = [(name, "ascending") for name in self.table.row_key_columns]
        found = self.table.with_text_values(rows).collect().sort_by(order).to_pylist()
        return [pair for row in found if (pair := self._pair(row)) is not None]

    def _pair(self, row: Mapping[str, Any]) -> tuple[Any, Any] | None:
        pair = _readable(self.table.text, row["key"], row["value"])
        if pair is None or self.table.plan.window is None:
            return pair
        start, end = (row[name].astimezone(timezone.utc) for name in ("window_start", "window_end"))
        return Windowed(pair[0], start, end), pair[1]

    def _write(self, values: Mapping[str, str | None]) -> None:
        refuse_made(self.table.plan.name, self.made_from)
        self._refuse_foreign()
        if self.table.plan.window is not None:
            raise UsageError(HAS_WINDOWS.format(self.table.plan.name))
        if not values:
            return
        now = write_time()
        self.table.put(self.spark, [(key, value, now) for key, value in values.items()])


def refuse_made(table: str, made_from: str | None) -> None:
    """Raise UsageError for a table that is made from another resource."""
    if made_from is not None:
        msg = f"table {table!r} is made from {made_from}: write to its sources instead"
        raise UsageError(msg)


def _readable(texts: TableText, key: str, value: str) -> tuple[Any, Any] | None:
    """A row as objects; None if the table's serializers cannot read its key or value."""
    if not texts.is_key(key):
        return None
    try:
        return texts.key_object(key), texts.value_object(value)
    except SerializationError:
        return None


def as_dict(rows: Pairs, name: str) -> dict[Any, Any]:
    """Pairs as a dictionary. Raises UsageError for keys that differ as JSON but not in Python: 1, 1.0 and True."""
    result: dict[Any, Any] = {}
    for key, value in rows:
        if key in result:
            msg = f"{name} has keys that Python takes for one ({key!r}): use rows(), which gives pairs"
            raise UsageError(msg)
        result[key] = value
    return result

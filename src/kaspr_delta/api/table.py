"""The handle to write, read, load and export a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from kaspr_delta.api.export import write_columns, write_pairs
from kaspr_delta.api.frames import Frames, table_of
from kaspr_delta.api.load import Content, LoadOptions, columns_check, kinds_listed, load_format, read_content, rows_in
from kaspr_delta.api.records import keys_given, refuse_made, rows_given
from kaspr_delta.engine.rows.driver_table import DriverTable, write_time
from kaspr_delta.engine.rows.row_texts import Row, arrow_rows_of
from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.serde.files.arrow_rows import arrow_rows
from kaspr_delta.serde.files.untyped import number_first, other_kind
from kaspr_delta.serde.instants import moment_of
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.serde.typed_values import plain_json
from kaspr_delta.storage.arrow_types import collected
from kaspr_delta.storage.layout import WRITTEN_AT
from kaspr_delta.storage.lazy_session import because

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kaspr_delta.engine.rows.keyed_table import KeyedTable


Pairs = list[tuple[Any, Any]]


class Windowed(NamedTuple):
    """The key of a row in a table with windows. Moments are in UTC; the end is exclusive."""

    key: Any
    window_start: datetime
    window_end: datetime


@dataclass(frozen=True, slots=True)
class TableHandle(Frames):
    """A KasprTable. ``made_from`` names the resource that it is made from: then it is read-only."""

    table: DriverTable
    made_from: str | None = None

    def put(self, rows: Mapping[Any, Any] | Iterable[tuple[Any, Any] | Mapping[str, Any]]) -> None:
        """Write rows in one commit: a mapping, pairs (for keys that no dictionary can have), or records.

        A record is ``{"key": …, "value": …}``. A value of None deletes the row. Of several rows with one key the last
        counts. Raises SerializationError, and UsageError for an item that is no row (see ``rows_given``) and for
        a table that has windows, is made from another resource, or is written by others.
        """
        texts = self.table.text
        self._write({texts.key(key): texts.row(key, value) for key, value in rows_given(rows)})

    def load(
        self,
        source: str,
        *,
        key: str | Sequence[str] = (),
        text: str | Sequence[str] = (),
        number: str | Sequence[str] = (),
        file_format: str | None = None,
    ) -> int:
        """Write the rows of a file in one commit. Returns the number of rows.

        ``source`` is a file of CSV, TSV, JSON lines (each perhaps compressed) or Parquet, the folder of a Delta table,
        or with ``file_format="delta"`` also the name of a Delta table. A typed table finds its own columns in it by
        name. In other tables, without ``key``, rows have a key and a value. With ``key``, one column or several, these
        columns are a row's key, and its value is an object of all columns. Numbers in CSV are numbers, unless ``text``
        names their column; the columns ``number`` must hold numbers. Raises UsageError, which names all problems with
        their places, before anything is written.
        """
        options, known = LoadOptions.of(key, text, number), load_format(source, file_format)
        self._refuse_write()
        if known != "delta":
            found = rows_in(source, known, columns_check(self.table.plan, source, options))
            content = read_content(self.table.plan, source, found, options, json=known == "json")
            return self.put_content(content)
        path = str(Path(source).absolute()) if Path(source).is_dir() else source
        if "/" in path and not {"`", ":"} & set(path) and not (Path(path) / "_delta_log").is_dir():
            raise UsageError(f"{source} is no Delta table: it has no folder _delta_log")
        spark = because(self.table.spark, f"it reads the Delta table {source}")
        rows = self.table.delta.read_elsewhere(spark, path)
        if self.table.plan.typed is not None:
            from kaspr_delta.api.delta_load import load_delta

            return load_delta(self._keyed, self.table.plan.typed, source, rows, options)
        content = read_content(self.table.plan, source, arrow_rows(collected(rows), source), options, json=False)
        return self.put_content(content)

    def put_content(self, content: Content) -> int:
        """Write the rows of a file that was read for this table. Returns their number.

        Keys whose kinds were inferred are compared with those of the table: raises
        UsageError if they would stand beside keys of another kind that look the same.
        """
        self._refuse_write()
        if content.columns is not None:
            self.table.put_columns(content.columns)
            return content.count
        if content.infers and self.table.plan.serializers.key == "json":
            self._check_kinds(content)
        self._write(content.texts)
        return content.count

    def _check_kinds(self, content: Content) -> None:
        """Raise UsageError if the table has the text of a number as a key, or the number of a text."""
        texts = self.table.text
        others = {texts.key(other): key for key in content.texts if (other := other_kind(key)) is not None}
        there = [row.key for row in self.table.rows(list(others))]
        if there:
            kinds = self.table.key_kinds()
            column, name = ", ".join(content.key), self.table.plan.name
            option = "--text" if there[0].startswith('"') else "--number"
            raise UsageError(
                f"{content.source}: key {others[there[0]]} of column {column} is not key {there[0]}, which {name} has "
                f"(its keys are {kinds_listed(sorted(kinds.items()))}): load with {option} {content.key[0]}, in Python "
                f"{option[2:]}={content.key[0]!r}"
            )

    def export(self, path: str, file_format: str | None = None) -> int:
        """Write all rows, ordered by key, to one CSV or Parquet file, which replaces an existing one.

        Returns the number of rows. Numbers come first, then all other keys by JSON text. ``load`` reads the rows back.
        See ``export.write_pairs`` and ``export.write_columns``. Raises UsageError.
        """
        typed = self.table.plan.typed
        if typed is not None:
            rows = self.to_arrow().sort_by([(name, "ascending") for name in typed.key])
            return write_columns(rows, typed.columns, path, file_format)
        ordered = sorted(self.table.rows(), key=lambda row: (number_first(row.key), row.key))
        found = [(row, pair) for row in ordered if (pair := _readable(self.table.text, row)) is not None]
        return write_pairs([pair for _, pair in found], self._moments([row for row, _ in found]), path, file_format)

    def delete(self, keys: Any) -> None:
        """Delete one key, or several (a list, a set …), in one commit. A missing key is no error.

        A tuple or a dictionary is one key. Raises UsageError for a record.
        """
        self._write({self.table.text.key(key): None for key in keys_given(keys)})

    def key_of_line(self, key: Any) -> Any:
        """The key that a key of JSON lines stands for, as `kaspr-delta table NAME dump` prints it."""
        return self.table.text.of_line(key)

    def get(self, key: Any) -> Any:
        """The value of a key, in a table with windows that of the newest window. None if there is none."""
        found = self.rows_of(key)
        return found[-1][1] if found else None

    def rows(self) -> Pairs:
        """All rows as pairs of key and value, ordered by key text; in a table with windows the keys are ``Windowed``.

        Rows that SQL wrote with a key or value that the table's serializers cannot read are left out. SQL shows them.
        """
        return self._pairs(self.table.rows())

    def rows_of(self, key: Any) -> Pairs:
        """The rows of one key in the form of ``rows``: one or none, in a table with windows all, ordered by time."""
        return self._pairs(self.table.rows([self.table.text.key(key)]))

    def to_arrow(self) -> pa.Table:
        """The table with key, value and timestamp, types inferred from the rows; with windows also their bounds.

        A typed table has its own columns and ``_timestamp``.
        """
        typed, rows = self.table.plan.typed, [row for row in self.table.rows() if row.value is not None]
        times = pa.array([row.at for row in rows], pa.timestamp("us", "UTC"))
        if typed is not None:
            values = [self.table.text.value_object(row.value or "") for row in rows]
            return arrow_rows_of(typed.columns, values).append_column(WRITTEN_AT, times)
        found = [(row, pair) for row in rows if (pair := _readable(self.table.text, row)) is not None]
        columns = table_of({"key": [pair[0] for _, pair in found], "value": [pair[1] for _, pair in found]})
        for name, moments in self._moments([row for row, _ in found]).items():
            columns = columns.append_column(name, moments)
        return columns

    def to_dict(self) -> dict[Any, Any]:
        """All rows by key; list keys as tuples. Raises UsageError if two keys are equal in Python."""
        return as_dict(self.rows(), self.table.plan.name)

    @property
    def df(self) -> DataFrame:
        """The table with decoded columns: key, value and timestamp, with types inferred from the rows.

        A table with windows also has window_start and window_end. A typed table has its own columns and ``_timestamp``.
        """
        from pyspark.sql import functions as F

        from kaspr_delta.storage.spark.decoded import decoded

        rows = self._keyed.live_rows(self.table.spark).df
        if self.table.plan.typed is not None:
            return rows.select("value.*", F.col("timestamp").alias(WRITTEN_AT))
        windows = ("window_start", "window_end") if self.table.plan.window else ()
        return decoded(rows.select("key", *windows, "value", "timestamp"), self.table.plan.serializers.json_columns)

    @property
    def _keyed(self) -> KeyedTable:
        from kaspr_delta.engine.rows.keyed_table import KeyedTable

        return KeyedTable(self.table.delta, self.table.plan)

    def _refuse_write(self) -> None:
        """Raise UsageError for a table that is made from another resource, is written by others, or has windows."""
        refuse_made(self.table.plan.name, self.made_from)
        if self.table.plan.refusal is not None:
            raise UsageError(self.table.plan.refusal)

    def _moments(self, rows: Sequence[Row]) -> dict[str, pa.Array]:
        """The columns of times beside the keys and values of rows."""
        moments: dict[str, list[Any]] = {"timestamp": [row.at for row in rows]}
        if (window := self.table.plan.window) is not None:
            starts = [row.start * 1_000 for row in rows]
            moments = {"window_start": starts, "window_end": [one + window.size * 1_000 for one in starts]} | moments
        return {name: pa.array(values, pa.timestamp("us", "UTC")) for name, values in moments.items()}

    def _pairs(self, rows: Iterable[Row]) -> Pairs:
        return [pair for row in rows if (pair := self._pair(row)) is not None]

    def _pair(self, row: Row) -> tuple[Any, Any] | None:
        pair, window = _readable(self.table.text, row), self.table.plan.window
        if pair is None or window is None:
            return pair
        start = moment_of(row.start * 1_000)
        return Windowed(pair[0], start, start + timedelta(milliseconds=window.size)), pair[1]

    def _write(self, values: Mapping[str, str | None]) -> None:
        self._refuse_write()
        if not values:
            return
        now = write_time()
        self.table.put((key, value, now) for key, value in values.items())


def _readable(texts: TableText, row: Row) -> tuple[Any, Any] | None:
    """A row as objects; None if the table's serializers cannot read its key or value."""
    if row.value is None or not texts.is_key(row.key):
        return None
    try:
        return texts.key_object(row.key), texts.value_object(row.value)
    except SerializationError:
        return None


def json_rows(rows: Iterable[tuple[Any, Any]], *, raw_keys: bool = True) -> Iterator[dict[str, Any]]:
    """Rows as JSON objects with key and value; those of a table with windows have the window's start and end.

    Bytes that are a key are left as they are, or base64 unless the table has ``raw_keys``.
    """
    for key, value in rows:
        fields = key._asdict() if isinstance(key, Windowed) else {"key": key if raw_keys else plain_json(key)}
        # The sides of a join's result are values of their own.
        is_pair = isinstance(value, dict) and value.keys() == {"left", "right"}
        shown = {side: _json(one) for side, one in value.items()} if is_pair else _json(value)
        yield {**{name: _json(one) for name, one in fields.items()}, "value": shown}


def _json(value: Any) -> Any:
    """The JSON of a key, value or side; one that is bytes as a whole is left as it is."""
    return value if isinstance(value, bytes) else plain_json(value, keeps_local=True)


def as_dict(rows: Pairs, name: str) -> dict[Any, Any]:
    """Pairs as a dictionary. Raises UsageError for keys that differ as JSON but not in Python: 1, 1.0 and True."""
    result: dict[Any, Any] = {}
    for key, value in rows:
        if key in result:
            raise UsageError(f"{name} has keys that Python takes for one ({key!r}): use rows(), which gives pairs")
        result[key] = value
    return result

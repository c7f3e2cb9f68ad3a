"""Tables and join results, to write, read and look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from kaspr_delta.engine.agent.changelog import HAS_WINDOWS
from kaspr_delta.engine.live_table import LiveTable
from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.plan.definition import JoinPlan
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.decoded import decoded
from kaspr_delta.storage.delta import Delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

Pairs = list[tuple[Any, Any]]


class Windowed(NamedTuple):
    """The key of a row in a table with windows. Moments are in UTC; the end does not belong to the window."""

    key: Any
    window_start: datetime
    window_end: datetime


@dataclass(frozen=True, slots=True)
class TableHandle:
    """A KasprTable."""

    spark: SparkSession
    table: LiveTable

    def put(self, rows: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Write rows, given as a mapping or as pairs (for keys that no dictionary can have), in one commit.

        A value of None deletes. Of several rows with one key the last counts. Raises SerializationError, and UsageError
        for a table with windows.
        """
        pairs = rows.items() if isinstance(rows, Mapping) else rows
        texts = self.table.text
        self._write({texts.key(key): None if value is None else texts.value(value) for key, value in pairs})

    def delete(self, keys: Any) -> None:
        """Delete one key, or a list of keys, in one commit. Deleting a missing key is silent."""
        wanted = keys if isinstance(keys, list) else [keys]
        self._write({self.table.text.key(key): None for key in wanted})

    def get(self, key: Any) -> Any:
        """The value of a key; None when there is none. In a table with windows that of the newest window."""
        found = self.rows_of(key)
        return found[-1][1] if found else None

    def rows(self) -> Pairs:
        """All rows as pairs of key and value, ordered by key text; in a table with windows the keys are ``Windowed``.

        A row that SQL wrote with a key or value that is not JSON text is none; it stays visible in SQL.
        """
        return self._pairs(self.table.live_rows(self.spark))

    def rows_of(self, key: Any) -> Pairs:
        """The row of one key, if there is one, as ``rows`` gives it; in a table with windows all of them, by time."""
        return self._pairs(self.table.live_rows(self.spark).where(F.col("key") == self.table.text.key(key)))

    def to_dict(self) -> dict[Any, Any]:
        """All rows by key; list keys as tuples. Raises UsageError where Python would take two keys for one."""
        return as_dict(self.rows(), self.table.plan.name)

    @property
    def df(self) -> DataFrame:
        """The table with decoded columns: key, value and timestamp, types inferred from the rows.

        Of a table with windows also window_start and window_end.
        """
        columns = tuple(
            name
            for name, serializer in (
                ("key", self.table.plan.serializers.key),
                ("value", self.table.plan.serializers.value),
            )
            if serializer == "json"
        )
        return decoded(self.table.live_rows(self.spark).drop("copies"), columns)

    def _pairs(self, rows: DataFrame) -> Pairs:
        return [pair for row in rows.orderBy(*self.table.place).collect() if (pair := self._pair(row)) is not None]

    def _pair(self, row: Row) -> tuple[Any, Any] | None:
        pair = _readable(self.table.text, row["key"], row["value"])
        if pair is None or self.table.plan.window is None:
            return pair
        start, end = (row[name].astimezone(timezone.utc) for name in ("window_start", "window_end"))
        return Windowed(pair[0], start, end), pair[1]

    def _write(self, values: Mapping[str, str | None]) -> None:
        if self.table.plan.window is not None:
            raise UsageError(HAS_WINDOWS.format(self.table.plan.name))
        if not values:
            return
        now = datetime.now(timezone.utc)
        self.table.put(self.spark, [(key, value, now) for key, value in values.items()])


@dataclass(frozen=True, slots=True)
class JoinHandle:
    """The result table of a join."""

    spark: SparkSession
    delta: Delta
    join: JoinPlan
    left: TableText
    right: TableText

    def get(self, key: Any) -> Any:
        """The result for a left key, ``{"left":…, "right":…}``; None when there is none."""
        found = self.rows_of(key)
        return found[0][1] if found else None

    def rows(self) -> Pairs:
        """All results as pairs of left key and ``{"left":…, "right":…}``, ordered by key text."""
        return self._pairs(self._read())

    def rows_of(self, key: Any) -> Pairs:
        """The result for a left key, if there is one, as ``rows`` gives it."""
        return self._pairs(self._read().where(F.col("key") == self.left.key(key)))

    def to_dict(self) -> dict[Any, Any]:
        """All results by left key. Raises UsageError where Python would take two keys for one."""
        return as_dict(self.rows(), self.join.name)

    @property
    def df(self) -> DataFrame:
        """The result table with decoded columns: key, left, right and timestamp, types inferred from the rows."""
        return decoded(self._read(), ("key", "left", "right"))

    def _read(self) -> DataFrame:
        return self.delta.read(self.spark, self.join.result)

    def _pairs(self, rows: DataFrame) -> Pairs:
        found = rows.orderBy("key").collect()
        return [(self.left.key_object(row["key"]), self._pair(row.asDict())) for row in found]

    def _pair(self, row: Mapping[str, Any]) -> dict[str, Any]:
        right = None if row["right"] is None else self.right.value_object(row["right"])
        return {"left": self.left.value_object(row["left"]), "right": right}


def _readable(texts: TableText, key: str, value: str) -> tuple[Any, Any] | None:
    """A row as objects; None where key or value is not what the table's serializers write."""
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

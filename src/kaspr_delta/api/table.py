"""Tables and join results, to write, read and look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kaspr_delta.engine.live_table import LiveTable
from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.plan.definition import JoinPlan
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.decoded import decoded
from kaspr_delta.storage.delta import Delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Pairs = list[tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class TableHandle:
    """A KasprTable."""

    spark: SparkSession
    table: LiveTable

    def put(self, rows: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Write rows, given as a mapping or as pairs (for keys that no dictionary can have), in one commit.

        A value of None deletes. Of several rows with one key the last counts. Raises SerializationError.
        """
        pairs = rows.items() if isinstance(rows, Mapping) else rows
        texts = self.table.text
        self._write({texts.key(key): None if value is None else texts.value(value) for key, value in pairs})

    def delete(self, keys: Any) -> None:
        """Delete one key, or a list of keys, in one commit. Deleting a missing key is silent."""
        wanted = keys if isinstance(keys, list) else [keys]
        self._write({self.table.text.key(key): None for key in wanted})

    def get(self, key: Any) -> Any:
        """The value of a key; None when there is none."""
        text = self.table.text.key(key)
        row = self.table.live_rows(self.spark).where(F.col("key") == text).first()
        pair = None if row is None else _readable(self.table.text, text, row["value"])
        return None if pair is None else pair[1]

    def rows(self) -> Pairs:
        """All rows as pairs of key and value, ordered by key text.

        A row that SQL wrote with a key or value that is not JSON text is none; it stays visible in SQL.
        """
        texts = self.table.text
        rows = self.table.live_rows(self.spark).orderBy("key").collect()
        return [pair for row in rows if (pair := _readable(texts, row["key"], row["value"])) is not None]

    def to_dict(self) -> dict[Any, Any]:
        """All rows by key; list keys as tuples. Raises UsageError where Python would take two keys for one."""
        return as_dict(self.rows(), self.table.plan.name)

    @property
    def df(self) -> DataFrame:
        """The table with decoded columns: key, value and timestamp, types inferred from the rows."""
        columns = tuple(
            name
            for name, serializer in (
                ("key", self.table.plan.serializers.key),
                ("value", self.table.plan.serializers.value),
            )
            if serializer == "json"
        )
        return decoded(self.table.live_rows(self.spark).drop("copies"), columns)

    def _write(self, values: Mapping[str, str | None]) -> None:
        if not values:
            return
        now = datetime.now(timezone.utc)
        rows = [(key, value, now) for key, value in values.items()]
        self.table.write(self.spark.createDataFrame(rows, "key STRING, value STRING, timestamp TIMESTAMP").coalesce(1))


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
        row = self._read().where(F.col("key") == self.left.key(key)).first()
        return None if row is None else self._pair(row.asDict())

    def rows(self) -> Pairs:
        """All results as pairs of left key and ``{"left":…, "right":…}``, ordered by key text."""
        rows = self._read().orderBy("key").collect()
        return [(self.left.key_object(row["key"]), self._pair(row.asDict())) for row in rows]

    def to_dict(self) -> dict[Any, Any]:
        """All results by left key. Raises UsageError where Python would take two keys for one."""
        return as_dict(self.rows(), self.join.name)

    @property
    def df(self) -> DataFrame:
        """The result table with decoded columns: key, left, right and timestamp, types inferred from the rows."""
        return decoded(self._read(), ("key", "left", "right"))

    def _read(self) -> DataFrame:
        return self.delta.read(self.spark, self.join.result)

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

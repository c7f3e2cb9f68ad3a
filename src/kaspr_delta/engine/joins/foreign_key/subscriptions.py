"""The subscriptions of a join as a batch reads them: the table, overlaid with changes that are not merged yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.batch.deferred_state import last_of_each_key
from kaspr_delta.engine.rows.rows import FEW_ROWS, SOME_BYTES, SOME_ROWS, Rows
from kaspr_delta.storage.spark.look_up import having
from kaspr_delta.storage.tables import Frame, Texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kaspr_delta.storage.tables import Tables

COLUMNS = ("key", "fk", "left_hash", "emitted")


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Subscriptions by left key: columns key, fk, left_hash, emitted.

    ``tail``: changes that are not merged into the table yet, each key once, with a column live too. ``look_up`` finds
    stored subscriptions by the texts in their columns.
    """

    table: DataFrame
    tail: pa.Table | None = None
    look_up: Callable[[Texts], Frame] | None = None

    @classmethod
    def over(cls, delta: Tables, spark: SparkSession, table: str, tail: Sequence[pa.Table]) -> Subscriptions:
        """A table and the changes of batches that are not merged yet, the oldest first."""
        stored = delta.read(spark, table).select(*COLUMNS)
        return cls(stored, last_of_each_key(tail) if tail else None, partial(delta.look_up, spark, table))

    @property
    def all(self) -> DataFrame:
        """All subscriptions."""
        if self.tail is None:
            return self.table
        rest = self.table.join(self._held(self.tail).select("key"), "key", "left_anti")
        return rest.unionByName(self._live(self.tail))

    def of_keys(self, keys: Collection[str]) -> Rows:
        """The subscriptions of these left keys; no Spark action."""
        found = self._stored({"key": keys})
        if isinstance(found, pa.Table):
            return self._newest_of(found, keys)
        if self.tail is None:
            return Rows(found)
        newer = self.tail.filter(_is_one_of(self.tail["key"], keys))
        unchanged = set(keys).difference(newer["key"].to_pylist())
        return Rows(having(self.table, {"key": unchanged}).unionByName(self._live(newer)))

    def of_either(self, keys: Collection[str], foreign_keys: Collection[str]) -> Rows:
        """The subscriptions of these left keys, and all that refer to these right keys; one Spark action at most."""
        wanted = {"key": keys, "fk": foreign_keys}
        found = self._stored(wanted)
        if isinstance(found, pa.Table):
            return self._newest_of(found, keys, foreign_keys)
        stored = Rows.of(found, SOME_ROWS, SOME_BYTES, counted=len(keys) + len(foreign_keys) <= FEW_ROWS)
        if self.tail is None:
            return stored
        if stored.table is None:
            return Rows(having(self.all, wanted))
        return replace(self._newest_of(stored.table, keys, foreign_keys), files=stored.files)

    def _newest_of(self, stored: pa.Table, keys: Collection[str], foreign_keys: Collection[str] = ()) -> Rows:
        """``stored``, the table's subscriptions of these keys, overlaid with their rows in the tail."""
        if self.tail is not None:
            old = stored.filter(pc.invert(pc.is_in(stored["key"], self.tail["key"])))
            mine = pc.or_(_is_one_of(self.tail["key"], keys), _is_one_of(self.tail["fk"], foreign_keys))
            new = self.tail.filter(pc.and_(self.tail["live"], mine)).select(COLUMNS)
            stored = pa.concat_tables([old, new], promote_options="default")
        return Rows.held(self.table.sparkSession, stored)

    def _stored(self, texts: Texts) -> Frame:
        """The table's subscriptions by the texts in their columns."""
        if self.look_up is None:
            return having(self.table, texts)
        return self.look_up(texts).select(list(COLUMNS))

    def _held(self, rows: pa.Table) -> DataFrame:
        return Rows.held(self.table.sparkSession, rows).df

    def _live(self, rows: pa.Table) -> DataFrame:
        return self._held(rows.filter(rows["live"]).select(COLUMNS))


def _is_one_of(column: pa.ChunkedArray, values: Collection[str]) -> pa.ChunkedArray:
    return pc.is_in(column, pa.array(values, pa.string()))

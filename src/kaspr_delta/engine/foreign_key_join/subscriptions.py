"""The subscriptions of a join as a batch finds them: the table, and over it what batches left that are not folded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from kaspr_delta.engine.rows import FEW_ROWS, SOME_BYTES, SOME_ROWS, Rows, among, one_of
from kaspr_delta.engine.state_behind import last_of_each_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kaspr_delta.storage.delta import Delta

COLUMNS = ("key", "fk", "left_hash", "emitted")


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Subscriptions by left key: key, fk, left_hash, emitted. ``tail`` has a column live too, each key once.

    ``look_up`` finds those of a few values of columns, where there is a better way than to ask the table.
    """

    table: DataFrame
    tail: pa.Table | None = None
    look_up: Callable[[Mapping[str, Collection[str]]], pa.Table | None] | None = None

    @classmethod
    def over(cls, delta: Delta, spark: SparkSession, table: str, tail: Sequence[pa.Table]) -> Subscriptions:
        """A table with what batches left, the oldest first."""
        stored = delta.read(spark, table).select(*COLUMNS)
        return cls(stored, last_of_each_key(tail) if tail else None, partial(delta.look_up, table))

    @property
    def all(self) -> DataFrame:
        """All of them."""
        if self.tail is None:
            return self.table
        rest = self.table.join(self._held(self.tail).select("key"), "key", "left_anti")
        return rest.unionByName(self._live(self.tail))

    def of_keys(self, keys: Collection[str]) -> Rows:
        """Those of known left keys; no Spark action."""
        found = self._looked_up(keys)
        if found is not None:
            return self._newest_of(found, keys)
        if self.tail is None:
            return Rows(among(self.table, keys))
        here = self.tail.filter(_is_one_of(self.tail["key"], keys))
        changed = set(here["key"].to_pylist())
        stored = among(self.table, [key for key in keys if key not in changed])
        return Rows(stored.unionByName(self._live(here)))

    def of_either(self, keys: Collection[str], foreign_keys: Collection[str]) -> Rows:
        """Those of known left keys, and all that point at known right keys; one Spark action at most."""
        found, files = self._looked_up(keys, foreign_keys), 0
        if found is None:
            few = len(keys) + len(foreign_keys) <= FEW_ROWS
            stored = Rows.of(self._either(self.table, keys, foreign_keys), SOME_ROWS, SOME_BYTES, counted=few)
            if self.tail is None:
                return stored
            if stored.table is None:
                return Rows(self._either(self.all, keys, foreign_keys))
            found, files = stored.table, stored.files
        return replace(self._newest_of(found, keys, foreign_keys), files=files)

    def _newest_of(self, stored: pa.Table, keys: Collection[str], foreign_keys: Collection[str] = ()) -> Rows:
        """Those of known keys, of which the table has these."""
        if self.tail is not None:
            old = stored.filter(pc.invert(pc.is_in(stored["key"], self.tail["key"])))
            mine = pc.or_(_is_one_of(self.tail["key"], keys), _is_one_of(self.tail["fk"], foreign_keys))
            new = self.tail.filter(pc.and_(self.tail["live"], mine)).select(COLUMNS)
            stored = pa.concat_tables([old, new], promote_options="default")
        return Rows.held(self.table.sparkSession, stored)

    def _looked_up(self, keys: Collection[str], foreign_keys: Collection[str] = ()) -> pa.Table | None:
        found = None if self.look_up is None else self.look_up({"key": keys, "fk": foreign_keys})
        return None if found is None else found.select(COLUMNS)

    @staticmethod
    def _either(rows: DataFrame, keys: Collection[str], foreign_keys: Collection[str]) -> DataFrame:
        if len(keys) + len(foreign_keys) <= FEW_ROWS:
            return rows.where(one_of("key", keys) | one_of("fk", foreign_keys))
        for column, values in (("key", keys), ("fk", foreign_keys)):
            wanted = Rows.held(rows.sparkSession, pa.table({column: pa.array(values, pa.string())})).df
            rows = rows.join(F.broadcast(wanted.withColumn(f"by_{column}", F.lit(True))), column, "left")
        return rows.where("by_key OR by_fk").select(*COLUMNS)

    def _held(self, rows: pa.Table) -> DataFrame:
        return Rows.held(self.table.sparkSession, rows).df

    def _live(self, rows: pa.Table) -> DataFrame:
        return self._held(rows.filter(rows["live"]).select(COLUMNS))


def _is_one_of(column: pa.ChunkedArray, values: Collection[str]) -> pa.ChunkedArray:
    return pc.is_in(column, pa.array(values, pa.string()))

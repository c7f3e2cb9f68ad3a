"""The subscriptions of a join as a batch finds them: the table, and over it what batches left that are not folded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.rows import Rows, one_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = ("key", "fk", "left_hash", "emitted")


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Subscriptions by left key: key, fk, left_hash, emitted. ``tail`` has a column live too, each key once."""

    table: DataFrame
    tail: pa.Table | None = None

    @classmethod
    def over(cls, table: DataFrame, tail: Sequence[pa.Table]) -> Subscriptions:
        """The table with what batches left, the oldest first."""
        return cls(table.select(*COLUMNS), _newest(tail) if tail else None)

    @property
    def all(self) -> DataFrame:
        """All of them."""
        if self.tail is None:
            return self.table
        rest = self.table.join(self._held(self.tail).select("key"), "key", "left_anti")
        return rest.unionByName(self._live(self.tail))

    def of_keys(self, keys: Collection[str]) -> DataFrame:
        """Those of a few left keys."""
        if self.tail is None:
            return self.table.where(one_of("key", keys))
        here = self.tail.filter(_is_one_of(self.tail["key"], keys))
        changed = set(here["key"].to_pylist())
        stored = self.table.where(one_of("key", [key for key in keys if key not in changed]))
        return stored.unionByName(self._live(here)) if changed else stored

    def of_either(self, keys: Collection[str], foreign_keys: Collection[str]) -> Rows:
        """Those of a few left keys, and all that point at a few right keys; one Spark action."""
        either = one_of("key", keys) | one_of("fk", foreign_keys)
        stored = Rows.of(self.table.where(either), counted=True)
        if self.tail is None:
            return stored
        if stored.table is None:
            return Rows(self.all.where(either))
        old = stored.table.filter(pc.invert(pc.is_in(stored.table["key"], self.tail["key"])))
        mine = pc.or_(_is_one_of(self.tail["key"], keys), _is_one_of(self.tail["fk"], foreign_keys))
        new = self.tail.filter(pc.and_(self.tail["live"], mine)).select(COLUMNS)
        found = Rows.known(self.table.sparkSession, pa.concat_tables([old, new.cast(old.schema)]))
        return replace(found, files=stored.files)

    def _held(self, rows: pa.Table) -> DataFrame:
        return Rows.held(self.table.sparkSession, rows).df

    def _live(self, rows: pa.Table) -> DataFrame:
        return self._held(rows.filter(rows["live"]).select(COLUMNS))


def _is_one_of(column: pa.ChunkedArray, values: Collection[str]) -> pa.ChunkedArray:
    return pc.is_in(column, pa.array(values, pa.string()))


def _newest(tail: Sequence[pa.Table]) -> pa.Table:
    """Of each key the last row."""
    rows = pa.concat_tables(tail)
    numbered = rows.append_column("n", pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by("key").aggregate([("n", "max")])["n_max"]
    return rows.take(last)

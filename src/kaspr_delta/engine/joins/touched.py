"""The keys that a batch touched, by side. The change feed is used only to learn which keys changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.serde.table_text import TableText

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "side STRING, key STRING, changed_at TIMESTAMP, reason STRING"

NULL_KEY = "null key"
NOT_CANONICAL = "key is not canonical JSON text"


# The most changes that are collected to the driver; an update is two rows of a change feed.
_KNOWN_CHANGES = 200_000
_BOTH = frozenset({"left", "right"})


class Touched(NamedTuple):
    """Distinct touched keys: columns side, key, changed_at. ``sides``: the sides with touched keys; both if unknown."""

    keys: Rows
    sides: Collection[str] = _BOTH


def touched_keys(changes: DataFrame) -> Touched:
    """Each key that changed once, with its last change; in one Spark job, without a shuffle of its own.

    Only of a first load or a long backlog keys are so many that they stay a plan. Others, even if they are too many for
    later steps to run on the driver, are known from here on: Spark sends them around, and shuffles no table for them.
    """
    found = Rows.of(changes.select("side", "key", "changed_at"), _KNOWN_CHANGES).table
    if found is None:
        return Touched(Rows(changes.groupBy("side", "key").agg(F.max("changed_at").alias("changed_at"))))
    once = found.group_by(["side", "key"]).aggregate([("changed_at", "max")])
    once = once.select(["side", "key", "changed_at_max"]).rename_columns(["side", "key", "changed_at"])
    sides = frozenset(once.column("side").unique().to_pylist())
    return Touched(Rows.held(changes.sparkSession, once), sides)


@dataclass(frozen=True, slots=True)
class CheckKeys:
    """Adds the reason why a touched key cannot be joined, in a column ``reason`` (NULL: it can)."""

    left: TableText
    right: TableText

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            sides, keys = batch.column("side").to_pylist(), batch.column("key").to_pylist()
            reasons = [self._reason(side, key) for side, key in zip(sides, keys, strict=True)]
            yield batch.append_column("reason", pa.array(reasons, pa.string()))

    def _reason(self, side: str, key: str | None) -> str | None:
        if key is None:
            return NULL_KEY
        text = self.left if side == "left" else self.right
        return None if text.is_key(key) else NOT_CANONICAL


def checked(touched: Rows, left: TableText, right: TableText) -> Rows:
    """Touched keys (side, key, changed_at) with the reason why one cannot be joined."""
    return touched.map_arrow(CheckKeys(left, right), SCHEMA)

"""Hop 1, on the left side: the foreign key of each touched row, and the instruction that goes with it.

The counterpart of Kafka Streams' ``SubscriptionSendProcessorSupplier``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from kaspr_delta.engine.dead_letters import ARROW_PROBLEM
from kaspr_delta.engine.foreign_key_join.instruction import instruction
from kaspr_delta.engine.rows import Rows
from kaspr_delta.engine.selector import Problem, Selector, duplicates, problem
from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.join_plans import JoinType
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.layout import PROBLEM

if TYPE_CHECKING:
    from pyspark.sql import Column

# What is known of a left key: its subscription before this batch (old_*), and its row at the pinned version.
KNOWN = (
    "key STRING, changed_at TIMESTAMP, woken BOOLEAN, old_fk STRING, old_hash STRING, emitted STRING, left STRING,"
    " left_hash STRING, left_timestamp TIMESTAMP, copies BIGINT"
)
EXTRACTED = f"{KNOWN}, fk STRING, problem {PROBLEM}, stale BOOLEAN"
_READ = ("key", "left", "left_hash", "woken", "old_fk", "old_hash", "copies")


class LeftRow(NamedTuple):
    """What the extractor's answer makes of a left row."""

    left: str | None
    left_hash: str | None
    fk: str | None = None
    problem: dict[str, str | None] | None = None
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Extract:
    """Runs the extractor over rows of KNOWN and adds ``fk``, ``problem`` and ``stale``.

    A row that was only woken by its right row, and whose left row is still the one that subscribed (same hash), keeps
    its foreign key without being asked again; one whose left row is another by now is ``stale``. An extractor that
    fails makes the row one without a key, and a problem; a value that its table's serializer cannot read is no row, and
    a problem.
    """

    extractor: Selector
    left: TableText

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in _READ]
            rows = [self._checked(*row) for row in zip(*columns, strict=True)]
            arrays = {
                "left": pa.array([row.left for row in rows], pa.string()),
                "left_hash": pa.array([row.left_hash for row in rows], pa.string()),
            }
            replaced = [arrays.get(name, batch.column(name)) for name in batch.schema.names]
            added = [
                pa.array([row.fk for row in rows], pa.string()),
                pa.array([row.problem for row in rows], ARROW_PROBLEM),
                pa.array([row.stale for row in rows], pa.bool_()),
            ]
            yield pa.RecordBatch.from_arrays([*replaced, *added], [*batch.schema.names, "fk", "problem", "stale"])

    def _checked(  # noqa: PLR0917, PLR0913  one a column
        self,
        key: str,
        left: str | None,
        left_hash: str | None,
        woken: bool,  # noqa: FBT001
        old_fk: str | None,
        old_hash: str | None,
        copies: int | None,
    ) -> LeftRow:
        if woken and old_hash == left_hash:
            return LeftRow(left, left_hash, old_fk, duplicates(copies, left))
        if left is None:
            return LeftRow(None, None, stale=woken)
        return self._extract(key, left, left_hash, duplicates(copies, left))._replace(stale=woken)

    def _extract(self, key: str, left: str, left_hash: str | None, doubled: Problem | None) -> LeftRow:
        try:
            value, left_key = self.left.value_object(left), self.left.event_key(key)
        except SerializationError as error:
            return LeftRow(None, None, None, problem("value cannot be read", str(error), left))
        fk, failure = self.extractor(value, left_key, left)
        return LeftRow(left, left_hash, fk, failure or doubled)


def send(known: Rows, join_type: JoinType, extract: Extract) -> Rows:
    """Rows of KNOWN to subscriptions: with the foreign key, the problem and KIP-213's instruction."""
    extracted = known.map_arrow(extract, EXTRACTED)
    told = instruction(join_type, F.col("old_fk"), F.col("fk"))
    return Rows(extracted.df.withColumn("instruction", told), extracted.table)


def row_hash(value: Column) -> Column:
    """The hash that travels with a subscription and tells whether the left row is still the same."""
    return F.md5(value)

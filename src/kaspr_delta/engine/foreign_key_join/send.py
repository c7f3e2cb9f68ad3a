"""Hop 1, on the left side: the foreign key of each touched row, and the instruction that goes with it.

The counterpart of Kafka Streams' ``SubscriptionSendProcessorSupplier``.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from kaspr_delta.engine.foreign_key_join.instruction import instruction
from kaspr_delta.engine.rows import Rows
from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.call import call
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition import JoinType
from kaspr_delta.serde.table_text import TableText

if TYPE_CHECKING:
    from pyspark.sql import Column

# What is known of a left key: its subscription before this batch (old_*), and its row at the pinned version.
KNOWN = (
    "key STRING, changed_at TIMESTAMP, woken BOOLEAN, old_fk STRING, old_hash STRING, emitted STRING, left STRING,"
    " left_hash STRING, left_timestamp TIMESTAMP, copies BIGINT"
)
_ADDED = [
    ("fk", pa.string()),
    ("problem", pa.struct([("reason", pa.string()), ("detail", pa.string()), ("value", pa.string())])),
]
EXTRACTED = f"{KNOWN}, fk STRING, problem STRUCT<reason: STRING, detail: STRING, value: STRING>"


@dataclass(frozen=True, slots=True)
class Extract:
    """Runs the extractor over rows of KNOWN and adds ``fk`` and ``problem``.

    A row that was only woken by its right row, and whose left row is still the one that subscribed (same hash), keeps
    its foreign key without being asked again. An extractor that fails makes the row one without a key, and a problem.
    """

    extractor: Snippet
    left: TableText
    right: TableText

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        function = self.extractor.function({})
        for batch in batches:
            columns = batch.select(["left", "woken", "old_fk", "old_hash", "left_hash", "copies"]).to_pydict()
            rows = zip(*columns.values(), strict=True)
            extracted = [self._extract(function, *row) for row in rows]
            for index, (name, kind) in enumerate(_ADDED):
                batch = batch.append_column(name, pa.array([row[index] for row in extracted], kind))  # noqa: PLW2901
            yield batch

    def _extract(  # noqa: PLR0913
        self,
        function: Any,
        left: str | None,
        woken: bool,
        old_fk: str | None,
        old_hash: str | None,
        left_hash: str | None,
        copies: int | None,
    ) -> tuple[str | None, dict[str, str] | None]:
        if left is None:
            return None, None
        problem = None
        if copies is not None and copies > 1:
            detail = f"{copies} rows have this key; the newest one is used: delete the others"
            problem = {"reason": "duplicate key", "detail": detail, "value": left}
        if woken and old_hash == left_hash:
            return old_fk, problem
        try:
            key = call(function, self.left.value_object(left), {})
            return None if key is None else self.right.key(key), problem
        except SerializationError as error:
            return None, {"reason": "foreign key cannot be used", "detail": str(error), "value": left}
        except (Exception, SystemExit):  # the author's code may raise anything
            return None, {"reason": "extractor failed", "detail": traceback.format_exc(limit=-3), "value": left}


def send(known: Rows, join_type: JoinType, extract: Extract) -> Rows:
    """Rows of KNOWN to subscriptions: with the foreign key, the problem and KIP-213's instruction."""
    extracted = known.map_arrow(extract, EXTRACTED)
    told = instruction(join_type, F.col("old_fk"), F.col("fk"))
    return Rows(extracted.df.withColumn("instruction", told), extracted.table)


def row_hash(value: Column) -> Column:
    """The hash that travels with a subscription and tells whether the left row is still the same."""
    return F.md5(value)

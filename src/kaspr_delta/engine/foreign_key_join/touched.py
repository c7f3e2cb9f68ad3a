"""Which keys a batch touched, on which side: all that is believed of a change feed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from kaspr_delta.engine.rows import Rows
from kaspr_delta.serde.table_text import TableText

SCHEMA = "side STRING, key STRING, changed_at TIMESTAMP, reason STRING"

NULL_KEY = "null key"
NOT_CANONICAL = "key is not canonical JSON text"


@dataclass(frozen=True, slots=True)
class CheckKeys:
    """Names what is wrong with a touched key, in a column ``reason`` (NULL: nothing)."""

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

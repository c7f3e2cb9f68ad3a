"""Live rows on the driver: the same as ``KeyedTable.live`` and ``fingerprint`` for rows of texts, without Spark."""

from __future__ import annotations

from hashlib import md5
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from kaspr_delta.plan.definition.resources import TablePlan


def live_here(table: TablePlan, stored: pa.Table) -> pa.Table | None:
    """The live rows among stored ones: columns key, value, timestamp, copies.

    None where Spark has to tell: of columns with types, bytes and windows, and where a key has several rows.
    """
    if table.has_types or table.joined or table.window or "raw" in (table.serializers.key, table.serializers.value):
        return None
    rows = stored.select(["key", "value", "timestamp"])
    rows = rows.filter(pc.and_(pc.is_valid(rows["key"]), pc.is_valid(rows["value"])))
    if table.serializers.value == "json":
        rows = rows.filter(pc.not_equal(rows["value"], "null"))
    if pc.count_distinct(rows["key"]).as_py() < rows.num_rows:
        return None
    return rows.append_column("copies", pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows))


def fingerprints(values: pa.ChunkedArray) -> pa.Array:
    """Hashes of values that are not NULL: MD5 of texts, spelled as Spark does."""
    # Bytes: SQL may have written invalid UTF-8.
    return pa.array(
        [md5(value, usedforsecurity=False).hexdigest() for value in values.cast(pa.binary()).to_pylist()], pa.string()
    )

"""Live rows on the driver: the same as ``KeyedTable.live`` and ``fingerprint`` for rows of texts, without Spark."""

from __future__ import annotations

from hashlib import md5
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from kaspr_delta.plan.definition.resources import TablePlan


def live_here(table: TablePlan, stored: pa.Table) -> pa.Table | None:
    """What of rows as a table has them is live: columns key, value, timestamp, copies.

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
    """What tells values apart, none of which is NULL: MD5 of texts, as Spark spells it."""
    # As bytes: SQL may have written what is no text.
    return pa.array(
        [md5(value, usedforsecurity=False).hexdigest() for value in values.cast(pa.binary()).to_pylist()], pa.string()
    )

"""Send, on the left side: the foreign key of each affected row.

The counterpart of Kafka Streams' ``SubscriptionSendProcessorSupplier``.
"""

from __future__ import annotations

from collections.abc import Mapping

import narwhals as nw

from kaspr_delta.engine.joins.foreign_key.extract import ExtractForeignKeys
from kaspr_delta.engine.joins.foreign_key.foreign_key_columns import ForeignKeyColumns
from kaspr_delta.engine.joins.side_rows import with_duplicates
from kaspr_delta.engine.rows.expressions import same
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.storage.layout import PROBLEM


def send(
    context: Rows,
    extract: ExtractForeignKeys,
    columns: ForeignKeyColumns | None = None,
    *,
    constants: Mapping[str, nw.Expr] | None = None,
) -> Rows:
    """Return left keys (columns as in ``left_context``) with their foreign key, problem and staleness.

    A left row that was only triggered by its right row, and has not changed since it subscribed (same hash), keeps its
    foreign key: the extractor is not called. A triggered left row that has changed is ``stale``. If the extractor
    fails, ``fk`` is NULL, and the row gets a dead letter.

    In a large batch Spark computes a foreign key that consists of ``columns``. ``constants`` are columns of the context
    that are the same for all rows: they are added after the extractor, so that they do not go through Python.
    """
    unchanged = nw.col("triggered_by_right") & same("old_hash", "left_hash")
    rows = context if constants else context.with_columns(unchanged=unchanged)
    rows = rows.extend(extract, f"fk STRING, problem {PROBLEM}", columns.added_to if columns is not None else None)
    rows = rows.with_columns(**constants) if constants else rows
    rows = rows.with_columns(
        fk=nw.when(nw.col("unchanged")).then(nw.col("old_fk")).otherwise(nw.col("fk")),
        problem=nw.when(~nw.col("unchanged")).then(nw.col("problem")),
        stale=nw.col("triggered_by_right") & ~nw.col("unchanged"),
    )
    return with_duplicates(rows, "left", "duplicate_count", "left_text")

"""The subscriptions of a join as a batch reads them: the table, overlaid with changes that are not merged yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa

from kaspr_delta.engine.batch.deferred_state import newest_states
from kaspr_delta.engine.joins.results import emitted_elsewhere
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.rows_by_key import rows_with
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.storage.layout import SUBSCRIPTIONS
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = tuple(column.name for column in columns_of(SUBSCRIPTIONS.columns))


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Subscriptions by left key: columns key, fk, left_hash, emitted (COLUMNS).

    ``unmerged``: changes of batches that are not merged into the table yet, the oldest first, with a column live too.
    ``emit_again``: all results are emitted (see ``emitted_elsewhere``).
    """

    delta: Tables
    spark: SparkSession
    table: str
    unmerged: Sequence[pa.Table] = ()
    emit_again: bool = False

    def relevant_to(self, left_keys: Rows, right_keys: Rows) -> Rows:
        """At least the subscriptions of these left keys, and all that refer to these right keys.

        If a right row has more subscribers than fit on the driver, the batch is a large one from here on.
        """
        keys = {"key": left_keys, "fk": right_keys}
        rows = rows_with(self.delta, self.spark, self.table, keys, SUBSCRIPTIONS.columns).select(*COLUMNS)
        if self.unmerged:
            newer = LocalRows(self.spark, newest_states(self.unmerged), self.delta.limits)
            rows = rows.join(newer, "key", "left_anti").union(newer.filter(nw.col("live")).select(*COLUMNS))
        return rows.with_columns(emitted=emitted_elsewhere()) if self.emit_again else rows

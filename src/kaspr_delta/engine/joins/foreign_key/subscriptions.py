"""The subscriptions of a join as a batch reads them: the table, overlaid with changes that are not merged yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa

from kaspr_delta.engine.batch.deferred_state import newest_states
from kaspr_delta.engine.joins.results import never_emitted
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.looked_up import collected_with, looked_up
from kaspr_delta.engine.rows.planning import plan_for
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.storage.layout import SUBSCRIPTIONS
from kaspr_delta.storage.spark.look_up import having
from kaspr_delta.storage.tables import Tables, Texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = tuple(column.name for column in columns_of(SUBSCRIPTIONS.columns))


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Subscriptions by left key: columns key, fk, left_hash, emitted (COLUMNS).

    ``unmerged``: changes of batches that are not merged into the table yet, the oldest first, with a column live too.
    ``emit_again``: all results are emitted (see ``never_emitted``).
    """

    delta: Tables
    spark: SparkSession
    table: str
    unmerged: Sequence[pa.Table] = ()
    emit_again: bool = False

    @property
    def all(self) -> Rows:
        """All subscriptions."""
        return self._newest(SparkRows(self.delta.read(self.spark, self.table), limits=self.delta.limits))

    def relevant_to(self, left_keys: Rows, right_keys: Rows) -> Rows:
        """At least the subscriptions of these left keys, and all that refer to these right keys.

        Where the keys are on the driver they are looked up: without Spark, or by one action of Spark. If a right row
        has more subscribers than fit there (``Limits.looked_up``, ``Limits.small_batch``), two actions find and count
        them, and the batch is a large one from here on.
        """
        if not (isinstance(left_keys, LocalRows) and isinstance(right_keys, LocalRows)):
            return self.all
        wanted = {"key": left_keys.texts("key"), "fk": right_keys.texts("key")}
        texts: Texts = {name: keys for name, keys in wanted.items() if keys}
        if not texts:
            return LocalRows.none(self.spark, SUBSCRIPTIONS.columns)
        found = collected_with(left_keys, looked_up(self.delta, self.spark, self.table, texts), self.delta)
        if isinstance(found, LocalRows):
            return self._newest(found)
        plan_for(self.spark, few=False)
        rows = having(self.all.df, texts, self.delta.limits)
        return SparkRows(rows, rows.count(), limits=self.delta.limits)

    def _newest(self, stored: Rows) -> Rows:
        """Stored subscriptions, overlaid with the unmerged ones."""
        rows = stored.select(*COLUMNS)
        if self.unmerged:
            newer = LocalRows(self.spark, newest_states(self.unmerged), self.delta.limits)
            rows = rows.join(newer, "key", "left_anti").union(newer.filter(nw.col("live")).select(*COLUMNS))
        return rows.with_columns(emitted=never_emitted()) if self.emit_again else rows

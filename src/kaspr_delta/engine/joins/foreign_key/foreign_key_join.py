"""The foreign-key join as a resource: its batch, hop by hop, and its folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import narwhals as nw
import pyarrow as pa
from pyspark.sql import SparkSession

from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.folding import newest_states
from kaspr_delta.engine.batch.resource import Begun, Fold
from kaspr_delta.engine.joins.foreign_key import hops
from kaspr_delta.engine.joins.foreign_key.extract import ExtractForeignKeys, ForeignKeyColumns
from kaspr_delta.engine.joins.foreign_key.first_load import usual_keys
from kaspr_delta.engine.joins.results import checked_rows, emitted_elsewhere, numbered
from kaspr_delta.engine.joins.table_join import Pinned, TableJoin, newest_by_key, stored_in_log
from kaspr_delta.engine.joins.touched import Touched
from kaspr_delta.engine.rows.local_rows import LocalRows, table_within
from kaspr_delta.engine.rows.rows import Rows, exists
from kaspr_delta.engine.rows.rows_by_key import rows_with
from kaspr_delta.engine.rows.sequence import MOST_TASKS, seq_of_rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan
from kaspr_delta.plan.definition.typed_joins import foreign_key_types
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import SUBSCRIPTIONS
from kaspr_delta.storage.side_by_side import side_by_side
from kaspr_delta.storage.tables import Merged, Upsert

COLUMNS: tuple[str, ...] = tuple(arrow_schema(SUBSCRIPTIONS.columns).names)
"""The columns of a subscription: its left key first, then fk, left_hash and emitted."""
_NO_STATE = arrow_schema(f"{SUBSCRIPTIONS.columns}, live BOOLEAN").empty_table()


class ForeignKeyJoin(TableJoin[ForeignKeyJoinPlan]):
    """KIP-213 over two change feeds. Its batches may wait to be folded together."""

    counted = ("kind", "failed", "stale")
    folds_together = True

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        """Recompute every key of both tables, and every key that has a subscription, however old."""
        pinned = self.pinned(spark)
        if log_is_new and self.delta.newest(spark, self.plan.subscriptions).version == 0:
            first = self._first_load(spark, pinned)
            if first is not None:
                return first, pinned.positions
        touched = self.every_key(spark, pinned, self.plan.subscriptions)
        return self._recompute(touched, pinned, emit_all=log_is_new), pinned.positions

    def decide_early(self, changes: Rows, state: Mapping[str, Any], unmerged: Sequence[pa.Table]) -> Decision:
        # Step 1: touched. Step 2: pinned.
        touched = self.touched(changes)
        return self._recompute(touched, self.pinned(changes.spark, touched.versions), unmerged)

    def changed_state(self, rows: Rows) -> pa.Table | None:
        """The subscriptions that a batch changed, with a column ``live`` too; None if there are too many."""
        if rows.max_rows == 0:
            return _NO_STATE
        changed = table_within(rows.select(*_NO_STATE.column_names), self.delta.limits.pending_state)
        return None if changed is None else changed.filter(changed["live"].is_valid()).cast(_NO_STATE.schema)

    def _recompute(
        self, touched: Touched, pinned: Pinned, unmerged: Sequence[pa.Table] = (), *, emit_all: bool = False
    ) -> Decision:
        if not touched.number:
            return Decision(touched.refused, 0)
        # Step 3: recompute. The hop of a right change is in `left_context`: it finds the left keys to recompute.
        subscriptions = self._subscriptions(touched, unmerged)
        if emit_all:
            subscriptions = subscriptions.with_columns(emitted=emitted_elsewhere())
        context = hops.left_context(subscriptions, touched, self.left, pinned.left)
        sent = hops.send(context, self._extract, self._columns)
        answered = hops.receive(sent, self.right, pinned.right.version)
        results = hops.respond(answered, self.plan.type, self.select_fingerprint)
        # Step 4: difference.
        effects = numbered(hops.emit(results).union(touched.refused))
        return Decision(self.with_selected(effects), touched.number)

    def _subscriptions(self, touched: Touched, unmerged: Sequence[pa.Table]) -> Rows:
        """At least the subscriptions of touched left keys, and all that refer to touched right keys.

        ``unmerged``: the changes of batches that are not in the table yet, the oldest first (see ``changed_state``). If
        a right row has more subscribers than fit on the driver, the batch is a large one from here on.
        """
        keys = {"key": touched.keys["left"], "fk": touched.keys["right"]}
        spark = keys["key"].spark
        rows = rows_with(self.delta, spark, self.plan.subscriptions, keys, SUBSCRIPTIONS.columns).select(*COLUMNS)
        if not unmerged:
            return rows
        newer = LocalRows(spark, newest_states(unmerged))
        return rows.join(newer, "key", "left_anti").union(newer.filter(nw.col("live")).select(*COLUMNS))

    def _first_load(self, spark: SparkSession, pinned: Pinned) -> Decision | None:
        """A decision over all rows of both tables.

        None if left rows are few, or a key is not usual or not unique: then keys are recomputed like touched ones.
        """
        if self.delta.count(spark, self.left.plan.delta_name, pinned.left.version) <= self.delta.limits.few.rows:
            return None
        left, right = side_by_side(
            [
                partial(usual_keys, self.left, spark, pinned.left),
                partial(usual_keys, self.right, spark, pinned.right, sized=True),
            ]
        )
        if left is None or right is None:
            return None
        rows = hops.left_rows(self.left, spark, pinned.left, None, unique_keys=True)
        rows = rows.select("key", "left", "left_hash", "left_timestamp")
        sent = hops.send(rows, self._extract, self._columns, constants=hops.never_seen(pinned.left))
        found = checked_rows(self.right, spark, pinned.right.version, None, unique_keys=True)
        found = SparkRows(found.df, right.rows if right.fits(self.delta.limits) else None)
        emitted = hops.emit(hops.respond(hops.with_right_rows(sent, found), self.plan.type, self.select_fingerprint))
        # No row came before another one: any order will do, even that of the files.
        numbered = emitted.df.coalesce(MOST_TASKS).withColumn("seq", seq_of_rows())
        return Decision(self.with_selected(SparkRows(numbered)), left.rows + right.rows)

    @property
    def _extract(self) -> ExtractForeignKeys:
        extractor = Selector(self.plan.extractor, self.right.text, "extractor", "foreign key", self.event_timeout)
        return ExtractForeignKeys(extractor, self.left.text, self.left.plan.row_type)

    @property
    def _columns(self) -> ForeignKeyColumns | None:
        """The columns of which the foreign key consists; None if a function has to compute it."""
        types, picked = foreign_key_types(self.application, self.plan), self.plan.picked
        if picked is None or not types:
            return None
        return ForeignKeyColumns(picked, types, self.left, self._extract.extractor)

    def state_folds(self, rows: Rows, *, several: bool) -> Sequence[Fold]:
        return [partial(self.fold_subscriptions, rows, several=several)]

    def fold_subscriptions(self, rows: Rows, *, several: bool) -> Merged:
        upsert = Upsert(compare=COLUMNS[1:], keep="live", sole_writer=True)
        states = newest_by_key(rows.filter(exists("live")), several=several).select(*upsert.columns, upsert.keep)
        copied_from = stored_in_log(rows, "live", several=several)
        return self.delta.merge(rows.spark, states.frame, self.plan.subscriptions, upsert, copied_from)

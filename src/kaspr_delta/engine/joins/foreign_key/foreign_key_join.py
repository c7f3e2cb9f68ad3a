"""The foreign-key join as a resource: its batch, hop by hop, and its folds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.planned_resource import Fold, Found, cost_of, kinds_of
from kaspr_delta.engine.batch.resource import Decision
from kaspr_delta.engine.joins.foreign_key.extract import ExtractForeignKeys
from kaspr_delta.engine.joins.foreign_key.first_load import is_large, never_seen, usual_keys
from kaspr_delta.engine.joins.foreign_key.foreign_key_columns import ForeignKeyColumns
from kaspr_delta.engine.joins.foreign_key.hops import (
    emit,
    left_context,
    left_rows,
    receive,
    respond,
    send,
    with_right_rows,
)
from kaspr_delta.engine.joins.foreign_key.subscriptions import COLUMNS, Subscriptions
from kaspr_delta.engine.joins.results import in_order
from kaspr_delta.engine.joins.side_rows import side_rows
from kaspr_delta.engine.joins.table_join import Pinned, TableJoin, identity, newest_by_key, stored_in_log
from kaspr_delta.engine.joins.touched import Touched
from kaspr_delta.engine.rows.expressions import exists
from kaspr_delta.engine.rows.local_rows import table_within
from kaspr_delta.engine.rows.planning import side_by_side
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.sequence import MOST_TASKS, seq_of_rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan
from kaspr_delta.plan.definition.typed_joins import foreign_key_types
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import RECORDS, SUBSCRIPTIONS
from kaspr_delta.storage.tables import Merged, Upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_NO_STATE = arrow_schema(f"{SUBSCRIPTIONS.columns}, live BOOLEAN").empty_table()


class ForeignKeyJoin(TableJoin[ForeignKeyJoinPlan]):
    """KIP-213 over two change feeds. Its batches may wait to be folded together (see ``FoldsTogether``)."""

    __slots__ = ()

    counted = ("kind", "failed", "stale")

    @property
    def definition(self) -> Mapping[str, str]:
        return {
            "type": self.plan.type,
            "extractor": self.plan.extractor.fingerprint,
            "left table": identity(self.left.plan),
            "right table": identity(self.right.plan),
            **self.selection,
        }

    @property
    def base64_columns(self) -> Mapping[str, Collection[str]]:
        left, right = (
            {name} if table.has_raw_keys else set() for name, table in (("key", self.left), ("fk", self.right))
        )
        columns = {self.plan.subscriptions: left | right, self.plan.result: left}
        return {table: sorted(names) for table, names in columns.items() if names}

    def begin(
        self,
        spark: SparkSession,
        state: Mapping[str, Any],
        *,
        log_is_new: bool,
    ) -> tuple[Decision, Mapping[str, int]]:
        """Recompute every key of both tables, and every key that has a subscription or a result, however old."""
        pinned = self.pinned(spark)
        left, right = pinned
        positions = {"left": left.version, "right": right.version}
        if log_is_new and self.delta.newest(spark, self.plan.subscriptions).version == 0:
            first = self._first_load(spark, pinned)
            if first is not None:
                return first, positions
        stored = self.delta.read(spark, self.plan.subscriptions)
        subscribed = stored.select(F.lit("left").alias("side"), "key", F.lit(left.at).alias("changed_at"))
        keys = self.left.keys(spark, "left", left).unionByName(subscribed)
        touched = self.touched_of(keys.unionByName(self.right.keys(spark, "right", right)))
        subscriptions = Subscriptions(self.delta, spark, self.plan.subscriptions, emit_again=log_is_new)
        return self._recompute(touched, subscriptions, pinned), positions

    def decide(self, batch: DataFrame, state: Mapping[str, Any], unmerged: Sequence[pa.Table] = ()) -> Decision:
        spark = batch.sparkSession
        # Step 1: touched. Step 2: pinned.
        touched = self.touched(batch)
        subscriptions = Subscriptions(self.delta, spark, self.plan.subscriptions, unmerged)
        return self._recompute(touched, subscriptions, self.pinned(spark))

    def changed_state(self, rows: Rows) -> pa.Table | None:
        """The subscriptions that a batch changed (see ``Subscriptions.unmerged``); None if there are too many."""
        if rows.max_rows == 0:
            return _NO_STATE
        changed = table_within(rows.select(*_NO_STATE.column_names), self.delta.limits.waiting_state)
        return None if changed is None else changed.filter(changed["live"].is_valid()).cast(_NO_STATE.schema)

    def _recompute(self, touched: Touched, subscriptions: Subscriptions, pinned: Pinned) -> Decision:
        """The rows of the log for touched keys and the current subscriptions."""
        if not touched.number:
            return Decision(touched.refused, 0)
        # Step 3: recompute. The hop of a right change is in `left_context`: it finds the left keys to recompute.
        context = left_context(subscriptions, touched, self.left, pinned.left)
        sent = send(context, self._extract, self._columns)
        answered = receive(sent, self.right, pinned.right.version)
        results = respond(answered, self.plan.type, self.select_fingerprint)
        # Step 4: difference.
        effects = in_order(emit(results).union(touched.refused))
        counts = self.files_of(pinned, self.plan.subscriptions)
        return Decision(self.with_selected(effects), touched.number, counts=counts)

    def _first_load(self, spark: SparkSession, pinned: Pinned) -> Decision | None:
        """A decision over all rows of both tables.

        None if left rows are few, or a key is not usual or not unique: then keys are recomputed like touched ones.
        """
        if not is_large(self.left, spark, pinned.left):
            return None
        left, right = side_by_side(
            [
                partial(usual_keys, self.left, spark, pinned.left),
                partial(usual_keys, self.right, spark, pinned.right, sized=True),
            ]
        )
        if left is None or right is None:
            return None
        rows = left_rows(self.left, spark, pinned.left, None, unique_keys=True)
        rows = rows.select("key", "left", "left_hash", "left_timestamp")
        sent = send(rows, self._extract, self._columns, constants=never_seen(pinned.left))
        found = side_rows(self.right, spark, pinned.right.version, None, unique_keys=True)
        found = SparkRows(found.df, right.rows if right.fits(self.delta.limits) else None, limits=self.delta.limits)
        emitted = emit(respond(with_right_rows(sent, found), self.plan.type, self.select_fingerprint))
        # No row came before another one: any order will do, even that of the files.
        numbered = emitted.df.coalesce(MOST_TASKS).withColumn("seq", seq_of_rows())
        return Decision(self.with_selected(SparkRows(numbered, limits=self.delta.limits)), left.rows + right.rows)

    @property
    def _extract(self) -> ExtractForeignKeys:
        """The extractor, as a function over left rows."""
        extractor = Selector(self.plan.extractor, self.right.text, "extractor", "foreign key", self.event_timeout)
        return ExtractForeignKeys(extractor, self.left.text, self.left.plan.row_type)

    @property
    def _columns(self) -> ForeignKeyColumns | None:
        """The columns of which the foreign key consists; None if a function has to compute it."""
        types, picked = foreign_key_types(self.application, self.plan), self.plan.picked
        if picked is None or not types:
            return None
        return ForeignKeyColumns(picked, types, self.left, self._extract.extractor)

    def folds(self, rows: Rows, found: Found, batches: Sequence[BatchId], *, states: bool) -> Sequence[Fold]:
        several = len(batches) > 1
        folds: list[Fold] = [partial(self.fold_subscriptions, rows, several=several)] if states else []
        if kinds_of(found).intersection(RECORDS):
            folds.append(partial(self.fold_result, rows, several=several))
        return folds

    def fold_states(self, rows: Rows, *, several: bool) -> Mapping[str, int]:
        return cost_of([self.fold_subscriptions(rows, several=several)])

    def fold_subscriptions(self, rows: Rows, *, several: bool) -> Merged:
        upsert = Upsert(compare=COLUMNS[1:], keep="live", sole_writer=True)
        states = newest_by_key(rows.filter(exists("live")), several=several).select(*upsert.columns, upsert.keep)
        copied_from = stored_in_log(rows, "live", several=several)
        return self.delta.merge(rows.spark, states.frame, self.plan.subscriptions, upsert, copied_from)

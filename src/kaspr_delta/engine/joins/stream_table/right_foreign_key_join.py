"""The join of a stream with all rows of a table that refer to the record's key (KIP-955), always a left join.

The counterpart of KIP-213's subscriptions is an index of the table's foreign keys, which its change feed maintains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

import narwhals as nw
from pyspark.sql import SparkSession

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.dead_letters import Renewed
from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.resource import Begun, Fold, Found, kinds_of
from kaspr_delta.engine.joins.stream_table.seen import with_rows
from kaspr_delta.engine.joins.stream_table.stream_table import StreamTable, StreamTableState
from kaspr_delta.engine.rows.local_rows import LocalRows, fetched, few_or_all, numbered_as, union_all
from kaspr_delta.engine.rows.rows import Rows, exists, first_of, same, text
from kaspr_delta.engine.rows.rows_by_key import rows_having
from kaspr_delta.engine.streams.selector import SelectKeys, Selector
from kaspr_delta.engine.streams.table_versions import changed_rows, in_their_own_time, newest_rows
from kaspr_delta.plan.definition.joins import RightForeignKeyJoinPlan
from kaspr_delta.storage.layout import PROBLEM
from kaspr_delta.storage.tables import Upsert

# Versions of table rows (see `table_versions`), with the keys they refer to.
_REFERRING = (
    "key STRING, `order` BIGINT, since TIMESTAMP, committed TIMESTAMP, value STRING, timestamp TIMESTAMP,"
    f" fk STRING, problem {PROBLEM}"
)
# Columns that only results have, and columns that only index rows have: a batch may hold only one of the two kinds.
_NO_RESULT = {
    "left": nw.String(),
    "right": nw.String(),
    "partition": nw.Int32(),
    "offset": nw.Int64(),
    "row": nw.String(),
}
_NO_INDEX = {"id": nw.String(), "look_up": nw.String(), "live": nw.Boolean()}


class RightForeignKeyJoin(StreamTable[RightForeignKeyJoinPlan]):
    """One result per record and row that refers to it; one without a right side if no row refers to it."""

    @property
    def renewed(self) -> Renewed:
        """The dead letters of table rows: a new checkpoint rebuilds the index."""
        return Renewed((self.plan.right,))

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        """Index the key that each row of the table refers to, and remove index rows that refer to nothing any more."""
        began, positions = self.start(spark, state)
        limits = self.delta.limits
        rows = self._referring(fetched(newest_rows(self.right, spark, began.table, None, few=True), limits.few))
        index = few_or_all(self.delta.scan(spark, self.plan.index), spark, ("id", "look_up"), limits.few)
        gone = index.select(nw.col("id").alias("key")).join(rows.select("key"), "key", "left_anti")
        effects = self._indexed(rows.select("key", "fk", "problem").union(gone), index)
        effects = numbered_as(rows, effects, ("key",), ()).drop("offset", "row")
        return Decision(effects, rows.count(), asdict(began)), positions

    def decide(self, changes: Rows, state: Mapping[str, Any]) -> Decision:
        spark, before = changes.spark, StreamTableState.of(state)
        # Step 1: touched.
        arrived = fetched(changes.filter(exists("source")), self.delta.limits.few)
        records = self.left.read(arrived)
        # Step 2: pinned.
        version = self.right.newest(spark).version
        after = self.after(spark, before, arrived, version)
        # Step 3: recompute. Step 4: every record is a change; index rows are changes if they differ.
        changed = self._changed(spark, before, version)
        parts = []
        if changed.max_rows != 0:
            newest = changed.newest(("key",), ("order",)).select("key", "fk", "problem")
            known = rows_having(self.delta, spark, self.plan.index, newest, "id")
            parts.append(self._indexed(newest, known))
        if records.max_rows != 0:
            after = replace(after, fresh=False)
            parts.append(self._joined(records, self._rows_met(records, changed, before, version)))
        rows_in = arrived.count()
        if not parts:
            return Decision(LocalRows.none(spark), rows_in, asdict(after))
        both = records.select("key").union(changed.select("key"))
        rows = numbered_as(both, union_all(parts), ("offset", "row"), ("partition",), self.delta.limits.few)
        return Decision(rows.drop("offset", "row"), rows_in, asdict(after))

    def folds(self, rows: Rows, found: Found, batches: Sequence[BatchId]) -> Sequence[Fold]:
        return [partial(self._fold_index, rows)] if "state" in kinds_of(found) else []

    def _changed(self, spark: SparkSession, before: StreamTableState, version: int) -> Rows:
        if version <= before.table:
            return LocalRows.none(spark, _REFERRING)
        return self._referring(fetched(changed_rows(self.right, spark, before.table, version), self.delta.limits.few))

    def _referring(self, versions: Rows) -> Rows:
        extractor = Selector(self.plan.extractor, self.left.text, "rightExtractor", "foreign key", self.event_timeout)
        return versions.map(SelectKeys("fk", self.right.text, extractor, self.left.text), _REFERRING)

    def _rows_met(self, records: Rows, changed: Rows, before: StreamTableState, version: int) -> Rows:
        """The versions, with ``fk``, of all rows that refer to a record or did: ``key``, VERSION and ``fk``."""
        keys = records.select(nw.col("look_up").alias("key"))
        unchanged = rows_having(self.delta, records.spark, self.plan.index, keys, "look_up")
        unchanged = unchanged.select(nw.col("id").alias("key"), nw.col("look_up").alias("fk"))
        unchanged = unchanged.join(changed.select("key"), "key", "left_anti")
        stored = newest_rows(self.right, records.spark, version, unchanged.select("key"))
        versions = stored.join(unchanged, "key", "inner").union(changed.drop("problem"))
        return in_their_own_time(versions) if before.fresh else versions

    def _joined(self, records: Rows, versions: Rows) -> Rows:
        """The rows of the log for rows of RECORD with the table rows that refer to them (see ``_rows_met``)."""
        timed = records.filter(exists("value") | exists("problem"))
        timed = timed.so_far("stream_time", "timestamp", ("source", "partition"), ("offset",))
        shown = ~nw.col("unreadable")
        return with_rows(timed, versions).select(
            "key",
            first_of((shown, text("value")), otherwise=text("state")).alias("kind"),
            nw.when(shown).then(nw.col("value")).alias("left"),
            "right",
            "timestamp",
            "source",
            "partition",
            "offset",
            "row",
            *(nw.lit(None, kind).alias(name) for name, kind in _NO_INDEX.items()),
            "problem",
            exists("problem").alias("failed"),
        )

    def _indexed(self, rows: Rows, index: Rows) -> Rows:
        """The rows of the log for rows whose key ``fk`` differs from the index, and for rows with a problem."""
        known = index.select(nw.col("id").alias("key"), nw.col("look_up").alias("old"))
        changed = rows.join(known, "key").filter(~same("fk", "old") | exists("problem"))
        return changed.select(
            "key",
            text("state").alias("kind"),
            nw.lit(datetime.now(timezone.utc)).alias("timestamp"),
            text(self.plan.right).alias("source"),
            *(nw.lit(None, kind).alias(name) for name, kind in _NO_RESULT.items()),
            nw.col("key").alias("id"),
            nw.col("fk").alias("look_up"),
            exists("fk").alias("live"),
            "problem",
            exists("problem").alias("failed"),
        )

    def _fold_index(self, rows: Rows) -> None:
        states = rows.filter(exists("id")).select("id", "look_up", "live")
        upsert = Upsert(on=("id",), compare=("look_up",), keep="live")
        self.delta.merge(rows.spark, states.frame, self.plan.index, upsert)

"""A table made from another table: the old contribution of a row is subtracted before its new one is added.

The counterpart of Kafka Streams' ``KGroupedTable``. The contribution of every row is stored, as a join stores its
emitted rows. So it does not matter how often a row changed between two batches, or whether a batch sees it twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import narwhals as nw
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.aggregation.aggregation import Aggregation, failed_rows
from kaspr_delta.engine.batch.checkpoint import BatchId, Start
from kaspr_delta.engine.batch.dead_letters import Renewed
from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.resource import Begun, Fold, Found, kinds_of
from kaspr_delta.engine.joins.touched import touched_keys
from kaspr_delta.engine.rows.keyed_table import KeyedTable, changed_keys
from kaspr_delta.engine.rows.local_rows import LocalRows, made_as, union_all
from kaspr_delta.engine.rows.rows import TRUE, Rows, exists, later, none_like, same, text
from kaspr_delta.engine.rows.rows_by_key import few_keys, rows_having
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.engine.streams.selector import SelectKeys
from kaspr_delta.storage.layout import PROBLEM
from kaspr_delta.storage.tables import Upsert

# A touched row of the table: its current values, its old contribution, and (added in _GROUPED) its current group.
_COLUMNS = ("key", "changed_at", "value", "timestamp", "duplicate_count", "old_grp", "old_value")
_GROUPED = (
    "key STRING, changed_at TIMESTAMP, value STRING, timestamp TIMESTAMP, duplicate_count BIGINT, old_grp STRING,"
    f" old_value STRING, grp STRING, problem {PROBLEM}"
)

# The columns by which changes of a group are in order.
_ORDER = ("id", "step")


class TableAggregation(Aggregation):
    """``count`` and ``aggregate`` over a table, or over the result of a join."""

    @property
    def origin(self) -> KeyedTable:
        return KeyedTable(self.delta, self.application.table_or_result(str(self.plan.origin)))

    @property
    def result(self) -> KeyedTable:
        return self.table

    def result_rows(self, effects: Rows) -> Rows:
        return self.table.as_stored(self.written(effects))

    @property
    def renewed(self) -> Renewed:
        """All dead letters, because a new checkpoint reads all rows of the table."""
        return Renewed(every=True)

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        return self.origin.feed(spark, str(self.plan.origin), start.positions["table"])

    def arrived(self, spark: SparkSession, after: Mapping[str, int], upto: Mapping[str, int]) -> Rows | None:
        return self.origin.arrived(spark, str(self.plan.origin), after["table"], upto["table"])

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        """Compute all groups again from all rows, and delete groups that no row belongs to any more."""
        pinned = self.origin.newest(spark)
        name = str(self.plan.origin)
        contributed = changed_keys(self.delta, spark, self.plan.contributions, name, pinned)
        keys = self.origin.keys(spark, name, pinned).union(contributed)
        decision = self._recompute(keys, pinned.version, anew=True, log_is_new=log_is_new)
        return decision, {"table": pinned.version}

    def decide(self, changes: Rows, state: Mapping[str, Any]) -> Decision:
        return self._recompute(changes)

    def folds(self, rows: Rows, found: Found, batches: Sequence[BatchId]) -> Sequence[Fold]:
        own = {
            "contribution": (self.plan.contributions, ("grp", "value")),
            "time": (self.plan.group_times, ("timestamp",)),
        }
        mine = [partial(self._fold_state, rows, kind, *own[kind]) for kind in own if kind in kinds_of(found)]
        return [*super().folds(rows, found, batches), *mine]

    def rows_before(self, groups: Rows) -> Rows:
        before = super().rows_before(groups)
        times = rows_having(self.delta, groups.spark, self.plan.group_times, groups)
        times = times.select("key", nw.col("timestamp").alias("moved_to"))
        moved = later(nw.col("timestamp"), nw.col("moved_to"))
        return before.join(times, "key").with_columns(timestamp=moved).drop("moved_to")

    def _recompute(
        self, changes: Rows, version: int | None = None, *, anew: bool = False, log_is_new: bool = False
    ) -> Decision:
        """Changes (as in ``KeyedTable.feed``) as rows of the log. ``anew`` ignores stored contributions."""
        # Step 1: touched.
        side = str(self.plan.origin)
        touched = touched_keys(changes, {side: self.origin.text}, self.delta.limits)
        again = anew and not log_is_new
        if not touched.number and not again:
            return Decision(LocalRows.none(changes.spark), 0)
        # Step 2: pinned.
        if version is None:
            upto = None if touched.versions is None else touched.versions[side]
            version = self.origin.pin(changes.spark, upto).version
        # Step 3: recompute.
        grouped = self._grouped(touched.keys[side], version, anew=anew)
        source = text(f"table/{side}")
        folded = self.folded(grouped, _changes(grouped, source), _ORDER, self.origin.text, anew=anew)
        # Step 4: difference. The fold does not write a group whose row is unchanged.
        refused = touched.refused.with_columns(kind=text("failed"), source=source)
        failed = failed_rows(grouped, source=source, timestamp=_time())
        parts = [folded, failed, refused.select("kind", "key", "timestamp", "source", "problem")]
        if again:
            parts += self._emptied(folded.df, grouped.df)
        return Decision(made_as(grouped, union_all(parts)), touched.number)

    def _grouped(self, keys: Rows, version: int, *, anew: bool) -> Rows:
        """The touched rows (columns key, changed_at) with their groups and old contributions: rows of _GROUPED."""
        spark = keys.spark
        rows = self.origin.live_rows(spark, version, few_keys(keys))
        texts = self.origin.with_text_values(rows).select("key", "value", "timestamp", "duplicate_count")
        found = keys.join(texts, "key")
        if anew:
            found = found.with_columns(old_grp=text(None), old_value=text(None))
        else:
            known = rows_having(self.delta, spark, self.plan.contributions, keys)
            known = known.select("key", nw.col("grp").alias("old_grp"), nw.col("value").alias("old_value"))
            found = found.join(known, "key")
        group = SelectKeys("grp", self.origin.text, self.grouping, self.table.text, checked=True)
        return made_as(keys, found.select(*_COLUMNS)).map(group, _GROUPED)

    def _emptied(self, folded: DataFrame, grouped: DataFrame) -> list[Rows]:
        """Deletions of rows and times of groups without rows, and of contributions of rows without a group."""
        rows = self.delta.read(folded.sparkSession, self.table.plan.delta_name).select(self.table.key)
        gone = rows.join(folded.where("kind = 'write'").select("key"), "key", "left_anti")
        left = grouped.where(F.col("grp").isNull())
        deleted = (
            gone.select("key", F.lit("write").alias("kind"), F.current_timestamp().alias("timestamp")),
            gone.select("key", F.lit("time").alias("kind"), F.lit(False).alias("live")),
            left.select("key", F.lit("contribution").alias("kind"), F.lit(False).alias("live")),
        )
        return [SparkRows(one) for one in deleted]

    def _fold_state(self, rows: Rows, kind: str, table: str, columns: tuple[str, ...]) -> None:
        changed = rows.filter(nw.col("kind") == kind).select("key", *columns, "live")
        self.delta.merge(rows.spark, changed.frame, table, Upsert(compare=columns, keep="live"))


def _changes(grouped: Rows, source: nw.Expr) -> Rows:
    """For each changed row: subtract its old contribution, and add its new one (see ``Change``), with _ORDER."""
    grp, old_grp, value, old_value = map(nw.col, ("grp", "old_grp", "value", "old_value"))
    about = {
        "timestamp": _time(),
        "window_start": none_like("timestamp"),
        "stream": text(None),
        "source": source,
        "id": nw.col("key"),
    }
    taken_back = {"grp": old_grp, "op": text("subtract"), "value": old_value, "last": ~exists("grp")}
    added = {"grp": grp, "op": text("add"), "value": value, "last": TRUE}
    changed = grouped.filter(~(same("grp", "old_grp") & same("value", "old_value")))
    return changed.each(
        (exists("old_grp"), {**taken_back, **about, "step": nw.lit(0)}),
        (exists("grp"), {**added, **about, "step": nw.lit(1)}),
    )


def _time() -> nw.Expr:
    return nw.coalesce(nw.col("timestamp"), nw.col("changed_at"))

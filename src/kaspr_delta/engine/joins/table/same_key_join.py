"""The join of two tables by their keys: a result pairs the rows of a key; the join type decides which may be missing.

The counterpart of Kafka Streams' ``KTable-KTable`` joins. The result table is the state: it holds the last emissions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kaspr_delta.engine.batch.dead_letters import problem
from kaspr_delta.engine.batch.resource import Decision
from kaspr_delta.engine.joins.foreign_key.emit import as_effects
from kaspr_delta.engine.joins.join import RECORDS, Fold
from kaspr_delta.engine.joins.table_join import Pinned, TableJoin, identity, refused
from kaspr_delta.engine.joins.touched import checked, touched_keys
from kaspr_delta.engine.rows.rows import Keys, Rows, merged, stored_rows
from kaspr_delta.plan.definition.joins import SameKeyJoinPlan
from kaspr_delta.storage.layout import PAIR

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kaspr_delta.engine.rows.keyed_table import KeyedTable

_UNREADABLE = "the {} row is not JSON text: repair or delete it"
_DUPLICATES = " {} rows have this key; the newest one is used: delete the others"


class SameKeyJoin(TableJoin[SameKeyJoinPlan]):
    """Inner, left and outer joins over two change feeds."""

    __slots__ = ()

    @property
    def definition(self) -> Mapping[str, str]:
        return {
            "type": self.plan.type,
            "left table": identity(self.left.plan),
            "right table": identity(self.right.plan),
            **self.selection,
        }

    @property
    def base64_columns(self) -> Mapping[str, Collection[str]]:
        return {self.plan.result: ["key"]} if self.left.has_raw_keys else {}

    def begin(
        self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool
    ) -> tuple[Decision, Mapping[str, int]]:
        """Recompute every key of both tables, and every key that has a result, however old."""
        pinned = self.pinned(spark)
        left, right = pinned
        emitted = self.delta.read(spark, self.plan.result)
        known = emitted.select(F.lit("left").alias("side"), "key", F.lit(left.at).alias("changed_at"))
        touched = self.left.keys(spark, "left", left).unionByName(self.right.keys(spark, "right", right))
        decision = self._recompute(touched_keys(touched.unionByName(known)).keys, pinned, emit_all=log_is_new)
        return decision, {"left": left.version, "right": right.version}

    def decide(self, batch: DataFrame, state: Mapping[str, Any]) -> Decision:
        return self._recompute(self.touched(batch).keys, self.pinned(batch.sparkSession), emit_all=False)

    def _recompute(self, keys: Rows, pinned: Pinned, *, emit_all: bool) -> Decision:
        """The rows of the log for touched keys (columns side, key, changed_at)."""
        if keys.empty:
            return Decision(keys, 0)
        touched = checked(keys, self.left.text, self.right.text)
        fit = touched.df.where(F.col("reason").isNull()).groupBy("key").agg(F.max("changed_at").alias("changed_at"))
        # Step 2: pinned. Step 3: recompute.
        spark = touched.spark
        wanted = touched.values("key", reason=None) if touched.here else None
        left = _side(self.left, spark, pinned.left.version, wanted, "left")
        right = _side(self.right, spark, pinned.right.version, wanted, "right")
        emitted = stored_rows(self.delta, spark, self.plan.result, wanted).df
        emitted = emitted.select("key", self._emitted().alias("emitted"))
        if touched.few:
            left, right, emitted = merged(left), merged(right), merged(emitted)
        held = fit.join(left, "key", "left").join(right, "key", "left").join(emitted, "key", "left")
        # Step 4: difference.
        rows = _emit(held, _shown(self.plan.type), self.selection.get("select", ""), emit_all=emit_all)
        effects = as_effects(rows, refused(touched), touched)
        return Decision(self.with_selected(effects), keys.count())

    def _emitted(self) -> Column:
        """The identity of a stored result (see ``_pair``)."""
        if self.select is not None:
            return F.col(PAIR)
        return _pair(self.left.fingerprint(F.col("left")), self.right.fingerprint(F.col("right")), "")

    def state_folds(self, rows: Rows, kinds: frozenset[str]) -> Sequence[Fold]:
        return [partial(self.fold_result, rows)] if kinds.intersection(RECORDS) else []


def _side(table: KeyedTable, spark: SparkSession, version: int, keys: Keys, side: str) -> DataFrame:
    """Live rows of one side: columns key, {side}, {side}_hash, {side}_timestamp, {side}_problem.

    A row that is not JSON counts as missing, and has a problem.
    """
    readable, stored = table.is_readable(F.col("value")), table.as_text(F.col("value"))
    copies = F.concat("copies", F.lit(_DUPLICATES.format(side)))
    return table.live_rows(spark, version, keys, typed=True).select(
        "key",
        F.when(readable, F.col("value")).alias(side),
        F.when(readable, table.fingerprint(F.col("value"))).alias(f"{side}_hash"),
        F.col("timestamp").alias(f"{side}_timestamp"),
        F.when(~readable, problem("value cannot be read", F.lit(_UNREADABLE.format(side)), stored))
        .when(F.col("copies") > 1, problem("duplicate key", copies, stored))
        .alias(f"{side}_problem"),
    )


def _shown(join_type: str) -> Column:
    """Whether a key has a result."""
    left, right = F.col("left").isNotNull(), F.col("right").isNotNull()
    return {"inner": left & right, "left": left, "outer": left | right}[join_type]


def _pair(left: Column, right: Column, selection: str) -> Column:
    """The identity of a result: the hashes of both rows, and the fingerprint of the select."""
    selected = [F.lit(selection)] if selection else []
    return F.concat_ws(":", F.coalesce(left, F.lit("")), F.coalesce(right, F.lit("")), *selected)


def _emit(held: DataFrame, shown: Column, selection: str, *, emit_all: bool) -> DataFrame:
    """The rows of the log for results that differ from the last emission, and for problems.

    A result has the later time of its two rows; a tombstone has the time of the commit.
    """
    result = F.when(shown, _pair(F.col("left_hash"), F.col("right_hash"), selection))
    changed = F.lit(emit_all) & (shown | F.col("emitted").isNotNull())
    changed |= ~result.eqNullSafe(F.col("emitted"))
    timestamp = F.when(shown, F.greatest("left_timestamp", "right_timestamp"))
    return (
        held.withColumns({"shown": shown, "changed": changed, "problem": F.coalesce("left_problem", "right_problem")})
        .where(F.col("changed") | F.col("problem").isNotNull())
        .select(
            "key",
            F.when(~F.col("changed"), "state").when(F.col("shown"), "value").otherwise("tombstone").alias("kind"),
            F.when(F.col("shown"), F.col("left")).alias("left"),
            F.when(F.col("shown"), F.col("right")).alias("right"),
            F.coalesce(timestamp, "changed_at").alias("timestamp"),
            result.alias("emitted"),
            "problem",
            F.col("problem").isNotNull().alias("failed"),
        )
    )

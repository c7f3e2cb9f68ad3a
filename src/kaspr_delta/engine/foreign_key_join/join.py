"""The foreign-key join as a resource: its batch, hop by hop, and its folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kaspr_delta.engine.foreign_key_join.emit import emit, in_order
from kaspr_delta.engine.foreign_key_join.foreign_key_columns import ForeignKeyColumns
from kaspr_delta.engine.foreign_key_join.receive import receive
from kaspr_delta.engine.foreign_key_join.response import respond
from kaspr_delta.engine.foreign_key_join.right_change import woken
from kaspr_delta.engine.foreign_key_join.send import Extract, send
from kaspr_delta.engine.foreign_key_join.touched import checked
from kaspr_delta.engine.join import RECORDS
from kaspr_delta.engine.log import BatchId
from kaspr_delta.engine.resource import Decision, Folded
from kaspr_delta.engine.rows import Rows
from kaspr_delta.engine.selector import Selector
from kaspr_delta.engine.table_join import Pinned, TableJoin, identity, refused
from kaspr_delta.plan.join_plans import ForeignKeyJoinPlan
from kaspr_delta.plan.typed_joins import foreign_key_types
from kaspr_delta.storage.delta import Commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ForeignKeyJoin(TableJoin[ForeignKeyJoinPlan]):
    """KIP-213 over two change feeds."""

    __slots__ = ()

    @property
    def definition(self) -> Mapping[str, str]:
        return {
            "type": self.plan.type,
            "extractor": self.plan.extractor.fingerprint,
            "left table": identity(self.left.plan),
            "right table": identity(self.right.plan),
            **self.selection,
        }

    def begin(
        self,
        spark: SparkSession,
        state: Mapping[str, Any],
        *,
        log_is_new: bool,
    ) -> tuple[Decision, Mapping[str, int]]:
        """Touched is every key of both tables, and every key that has a subscription or a result, however old."""
        pinned = self.pinned(spark)
        left, right = pinned
        known = self.delta.read(spark, self.plan.subscriptions)
        if log_is_new:
            # A new channel knows nothing of what another one was told: all that holds is emitted on it.
            known = known.withColumn("emitted", F.concat("emitted", F.lit(" elsewhere")))
        subscribed = known.select(F.lit("left").alias("side"), "key", F.lit(left.at).alias("changed_at"))
        keys = self.left.keys(spark, "left", left).unionByName(subscribed)
        touched = keys.unionByName(self.right.keys(spark, "right", right))
        return self._recompute(touched, known, pinned), {"left": left.version, "right": right.version}

    def decide(self, batch: DataFrame, state: Mapping[str, Any]) -> Decision:
        spark = batch.sparkSession
        return self._recompute(batch, self.delta.read(spark, self.plan.subscriptions), self.pinned(spark))

    def _recompute(self, changes: DataFrame, state: DataFrame, pinned: Pinned) -> Decision:
        """Changes (columns side, key, changed_at) and the state as it is, to rows of the log."""
        # Step 1: touched.
        keys = Rows.of(changes.groupBy("side", "key").agg(F.max("changed_at").alias("changed_at")))
        if keys.empty:
            return Decision(keys, 0)
        touched = checked(keys, self.left.text, self.right.text)
        # Step 2: pinned. Steps 3 and 4: recompute, difference.
        known = self._known(state, touched, pinned.left)
        extractor = Selector(self.plan.extractor, self.right.text, "extractor", "foreign key", self.event_timeout)
        extract = Extract(extractor, self.left.text, self.left.plan.row_type)
        subscriptions = send(known, self.plan.type, extract, self._columns(extractor))
        answered = receive(subscriptions, self.right, pinned.right.version)
        responses = respond(answered, self.plan.type, self.selection.get("select", ""))
        rows = emit(responses).unionByName(refused(touched.df), allowMissingColumns=True)
        effects = Rows.of(in_order(rows.coalesce(1))) if subscriptions.few else Rows(in_order(rows))
        return Decision(self.with_selected(effects), touched.count())

    def _known(self, state: DataFrame, touched: Rows, left: Commit) -> Rows:
        """All left keys to recompute, with their subscriptions as they were and their rows as they are."""
        keys = self._keys(state, touched).join(
            state.select("key", F.col("fk").alias("old_fk"), F.col("left_hash").alias("old_hash"), "emitted"),
            "key",
            "left",
        )
        # Subscribers are looked up once, before their rows are; without any, keys and rows are one query.
        known = Rows.of(keys) if touched.few and touched.has("side", "right") else Rows(keys)
        current = self.left.live_rows(touched.df.sparkSession, left.version, known.df, typed=True).select(
            "key",
            F.col("value").alias("left"),
            self.left.fingerprint(F.col("value")).alias("left_hash"),
            F.col("timestamp").alias("left_timestamp"),
            "copies",
        )
        joined = known.df.join(current, "key", "left")
        return Rows.of(joined) if touched.few else Rows(joined)

    def _columns(self, extractor: Selector) -> ForeignKeyColumns | None:
        """The columns that are the foreign key, or make it; None where a function has to give it."""
        types = foreign_key_types(self.application, self.plan)
        picked = self.plan.picked
        return ForeignKeyColumns(picked, types, self.left, extractor) if picked is not None and types else None

    @staticmethod
    def _keys(state: DataFrame, touched: Rows) -> DataFrame:
        """Left keys that were touched, or woken by the right row they subscribe to: key, changed_at, woken."""
        fit = touched.df.where(F.col("reason").isNull())
        left_keys = fit.where(F.col("side") == "left").select("key", "changed_at")
        keys = left_keys.withColumn("woken", F.lit(False))
        if touched.few and not touched.has("side", "right"):
            return keys
        right_keys = fit.where(F.col("side") == "right").select("key", "changed_at")
        followers = woken(state, right_keys, left_keys)
        return keys.unionByName(followers.withColumn("woken", F.lit(True)))

    def fold(self, spark: SparkSession, batch: BatchId, rows: Rows) -> Folded:
        stale = sum(count for (stale,), count in rows.count_by("stale").items() if stale)
        return replace(super().fold(spark, batch, rows), stale=stale)

    def state_folds(self, rows: Rows, kinds: frozenset[str]) -> Sequence[Callable[[], None]]:
        folds = [partial(self._fold_subscriptions, rows.df)]
        if kinds.intersection(RECORDS):
            folds.append(partial(self.fold_result, rows.df))
        return folds

    def _fold_subscriptions(self, rows: DataFrame) -> None:
        states = rows.where(F.col("live").isNotNull()).select("key", "fk", "left_hash", "emitted", "live")
        self.delta.upsert(states, self.plan.subscriptions, compare=("fk", "left_hash", "emitted"), keep="live")

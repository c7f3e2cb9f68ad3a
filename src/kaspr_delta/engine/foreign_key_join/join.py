"""The foreign-key join as a resource: its batch, hop by hop, and its folds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kaspr_delta.engine.dead_letters import fold_dead_letters
from kaspr_delta.engine.foreign_key_join.emit import emit, in_order
from kaspr_delta.engine.foreign_key_join.receive import receive
from kaspr_delta.engine.foreign_key_join.response import respond
from kaspr_delta.engine.foreign_key_join.right_change import woken
from kaspr_delta.engine.foreign_key_join.send import Extract, row_hash, send
from kaspr_delta.engine.foreign_key_join.touched import checked
from kaspr_delta.engine.live_table import LiveTable
from kaspr_delta.engine.log import BatchId, Start
from kaspr_delta.engine.query import side_by_side
from kaspr_delta.engine.resource import Decision, Folded
from kaspr_delta.engine.rows import Rows
from kaspr_delta.plan.definition import JoinPlan, ResourceRef, TablePlan
from kaspr_delta.storage.delta import Commit, Delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RECORDS = ("value", "tombstone")


@dataclass(frozen=True, slots=True)
class ForeignKeyJoin:
    """KIP-213 over two change feeds."""

    delta: Delta
    plan: JoinPlan
    left_table: TablePlan
    right_table: TablePlan
    event_timeout: int

    @property
    def ref(self) -> ResourceRef:
        return self.plan.ref

    @property
    def log_table(self) -> str:
        return self.plan.log

    @property
    def turn(self) -> str:
        return str(self.ref)

    @property
    def timed(self) -> bool:
        return False

    @property
    def left(self) -> LiveTable:
        """The table whose values are given to the extractor."""
        return LiveTable(self.delta, self.left_table)

    @property
    def right(self) -> LiveTable:
        """The table that foreign keys point into."""
        return LiveTable(self.delta, self.right_table)

    @property
    def definition(self) -> Mapping[str, str]:
        return {
            "type": self.plan.type,
            "extractor": self.plan.extractor.fingerprint,
            "left table": _identity(self.left_table),
            "right table": _identity(self.right_table),
        }

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        """Both change feeds in one query, so that one checkpoint covers both. Their order is part of the checkpoint."""
        left = self.left.feed(spark, "left", start.positions["left"])
        return left.unionByName(self.right.feed(spark, "right", start.positions["right"]))

    def newest(self, spark: SparkSession, sources: Iterable[str]) -> Mapping[str, int]:
        sides = {"left": self.left, "right": self.right}
        return {source: sides[source].newest(spark).version for source in sources}

    def processed(self, state: Mapping[str, Any]) -> Mapping[str, int]:
        return {}  # a batch that changes nothing leaves no trace: only the checkpoint knows

    def sources(self, spark: SparkSession) -> Collection[str]:
        return ("left", "right")

    def begin(
        self,
        spark: SparkSession,
        state: Mapping[str, Any],
        *,
        log_is_new: bool,
    ) -> tuple[Decision, Mapping[str, int]]:
        """Touched is every key of both tables, and every key that has a subscription or a result, however old."""
        left, right = self._pinned(spark)
        known = self.delta.read(spark, self.plan.subscriptions)
        if log_is_new:
            # A new channel knows nothing of what another one was told: all that holds is emitted on it.
            known = known.withColumn("emitted", F.concat("emitted", F.lit(" elsewhere")))
        subscribed = known.select(F.lit("left").alias("side"), "key", F.lit(left.at).alias("changed_at"))
        keys = self.left.keys(spark, "left", left).unionByName(subscribed)
        touched = keys.unionByName(self.right.keys(spark, "right", right))
        return self._recompute(touched, known, left, right), {"left": left.version, "right": right.version}

    def due(self, spark: SparkSession, state: Mapping[str, Any], *, ending: bool) -> Decision | None:
        return None

    def decide(self, batch: DataFrame, state: Mapping[str, Any]) -> Decision:
        spark = batch.sparkSession
        left, right = self._pinned(spark)
        return self._recompute(batch, self.delta.read(spark, self.plan.subscriptions), left, right)

    def _pinned(self, spark: SparkSession) -> list[Commit]:
        return side_by_side([partial(table.newest, spark) for table in (self.left, self.right)])

    def _recompute(self, changes: DataFrame, state: DataFrame, left: Commit, right: Commit) -> Decision:
        """Changes (columns side, key, changed_at) and the state as it is, to rows of the log."""
        # Step 1: touched.
        keys = Rows.of(changes.groupBy("side", "key").agg(F.max("changed_at").alias("changed_at")))
        if keys.empty:
            return Decision(keys, 0)
        touched = checked(keys, self.left.text, self.right.text)
        # Step 2: pinned. Steps 3 and 4: recompute, difference.
        known = self._known(state, touched, left)
        extract = Extract(self.plan.extractor, self.left.text, self.right.text, self.event_timeout / 1_000)
        subscriptions = send(known, self.plan.type, extract)
        answered = receive(subscriptions, self.right, right.version)
        rows = emit(respond(answered, self.plan.type)).unionByName(_refused(touched.df), allowMissingColumns=True)
        effects = Rows.of(in_order(rows.coalesce(1))) if subscriptions.few else Rows(in_order(rows))
        return Decision(effects, touched.table.num_rows if touched.table is not None else touched.df.count())

    def _known(self, state: DataFrame, touched: Rows, left: Commit) -> Rows:
        """All left keys to recompute, with their subscriptions as they were and their rows as they are."""
        keys = self._keys(state, touched).join(
            state.select("key", F.col("fk").alias("old_fk"), F.col("left_hash").alias("old_hash"), "emitted"),
            "key",
            "left",
        )
        # Subscribers are looked up once, before their rows are; without any, keys and rows are one query.
        known = Rows.of(keys) if touched.few and touched.has("side", "right") else Rows(keys)
        current = self.left.live_rows(touched.df.sparkSession, left.version, known.df).select(
            "key",
            F.col("value").alias("left"),
            row_hash(F.col("value")).alias("left_hash"),
            F.col("timestamp").alias("left_timestamp"),
            "copies",
        )
        joined = known.df.join(current, "key", "left")
        return Rows.of(joined) if touched.few else Rows(joined)

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
        counts = rows.count_by("kind", "failed", "stale")
        records = sum(count for (kind, _, _), count in counts.items() if kind in _RECORDS)
        letters = sum(count for (_, failed, _), count in counts.items() if failed)
        stale = sum(count for (_, _, stale), count in counts.items() if stale)
        folds: list[Callable[[], None]] = [partial(self._fold_subscriptions, rows.df)]
        if records:
            folds.append(partial(self._fold_result, rows.df))
        if letters:
            folds.append(partial(fold_dead_letters, self.delta, self._letters(rows.df), str(self.ref), batch))
        side_by_side(folds)
        return Folded(records, letters, stale)

    def _fold_result(self, rows: DataFrame) -> None:
        records = rows.where(F.col("kind").isin(*_RECORDS))
        records = records.select("key", "left", "right", "timestamp", (F.col("kind") == "value").alias("keep"))
        self.delta.upsert(records, self.plan.result, compare=("left", "right"), also=("timestamp",), keep="keep")

    def _fold_subscriptions(self, rows: DataFrame) -> None:
        states = rows.where(F.col("live").isNotNull()).select("key", "fk", "left_hash", "emitted", "live")
        self.delta.upsert(states, self.plan.subscriptions, compare=("fk", "left_hash", "emitted"), keep="live")

    def _letters(self, rows: DataFrame) -> DataFrame:
        return rows.where("failed").select(
            F.lit(f"{self.plan.left},{self.plan.right}").alias("source"),
            "key",
            F.col("problem.value").alias("value"),
            "problem",
            "timestamp",
            "batch",
        )


def _identity(table: TablePlan) -> str:
    """What a join's state depends on of a table: which one it is, and how it spells keys and values."""
    return f"{table.delta_name} ({table.serializers.key}, {table.serializers.value})"


def _refused(touched: DataFrame) -> DataFrame:
    """Touched keys that cannot be joined, as rows of the log that change nothing and carry the problem."""
    hint = F.when(
        F.col("reason") == "null key", F.lit("a row without a key belongs to nothing: give it a key or delete it")
    ).otherwise(
        F.concat(F.lit('write keys as canonical JSON text: text in quotes ("P100"), objects sorted; table: '), "side")
    )
    problem = F.struct("reason", hint.alias("detail"), F.lit(None).cast("string").alias("value"))
    return touched.where(F.col("reason").isNotNull()).select(
        "key",
        F.lit("state").alias("kind"),
        F.col("changed_at").alias("timestamp"),
        problem.alias("problem"),
        F.lit(True).alias("failed"),
    )

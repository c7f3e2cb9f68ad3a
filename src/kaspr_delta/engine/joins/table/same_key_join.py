"""The join of two tables by their keys: a result pairs the rows of a key; the join type decides which may be missing.

The counterpart of Kafka Streams' ``KTable-KTable`` joins. The result table is the state: it holds the last emissions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.planned_resource import Fold, Found, kinds_of
from kaspr_delta.engine.batch.resource import Decision
from kaspr_delta.engine.batch.side_by_side import side_by_side
from kaspr_delta.engine.joins.foreign_key.emit import in_order
from kaspr_delta.engine.joins.side_rows import side_rows
from kaspr_delta.engine.joins.table_join import Pinned, TableJoin, identity
from kaspr_delta.engine.joins.touched import Touched
from kaspr_delta.engine.rows.expressions import exists, first_of, later, same, text, with_problem
from kaspr_delta.engine.rows.looked_up import stored_rows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.streams.selector import DUPLICATES
from kaspr_delta.plan.definition.joins import SameKeyJoinPlan
from kaspr_delta.storage.layout import PAIR, RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kaspr_delta.engine.rows.keyed_table import KeyedTable


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
        changes = self.left.keys(spark, "left", left).unionByName(self.right.keys(spark, "right", right))
        touched = self.touched_of(changes.unionByName(known))
        return self._recompute(touched, pinned, emit_all=log_is_new), {"left": left.version, "right": right.version}

    def decide(self, batch: DataFrame, state: Mapping[str, Any]) -> Decision:
        # Step 1: touched. Step 2: pinned.
        return self._recompute(self.touched(batch), self.pinned(batch.sparkSession), emit_all=False)

    def _recompute(self, touched: Touched, pinned: Pinned, *, emit_all: bool) -> Decision:
        """The rows of the log for touched keys."""
        if not touched.number:
            return Decision(touched.refused, 0)
        changed = touched.keys["left"].union(touched.keys["right"]).newest(("key",), ("changed_at",))
        keys, spark = changed.select("key"), changed.spark
        # Step 3: recompute.
        left, right, emitted = side_by_side(
            [
                partial(_side, self.left, spark, pinned.left.version, keys, "left"),
                partial(_side, self.right, spark, pinned.right.version, keys, "right"),
                partial(self._emissions, spark, keys),
            ]
        )
        pairs = changed.join(left, "key").join(right, "key").join(emitted, "key")
        # Step 4: difference.
        selection = self.selection.get("select", "")
        rows = _emit(pairs, _shown(self.plan.type), selection, emit_all=emit_all)
        return Decision(self.with_selected(in_order(rows.union(touched.refused))), touched.number)

    def _emissions(self, spark: SparkSession, keys: Rows) -> Rows:
        """The identities of the stored results of keys (see ``_pair``): columns key, emitted."""
        if self.select is not None:
            return stored_rows(self.delta, spark, self.plan.result, keys, {}).select(
                "key", nw.col(PAIR).alias("emitted")
            )
        hashes = {"left_hash": ("left", self.left.hash), "right_hash": ("right", self.right.hash)}
        rows = stored_rows(self.delta, spark, self.plan.result, keys, hashes)
        return rows.select("key", _pair("").alias("emitted"))

    def folds(self, rows: Rows, found: Found, batches: Sequence[BatchId], *, states: bool) -> Sequence[Fold]:
        return [partial(self.fold_result, rows)] if kinds_of(found).intersection(RECORDS) else []


def _side(table: KeyedTable, spark: SparkSession, version: int, keys: Rows, side: str) -> Rows:
    """Live rows of one side: columns key, {side}, {side}_hash, {side}_timestamp, {side}_problem.

    A row that is not JSON counts as missing, and has a problem.
    """
    readable, several = nw.col("readable"), nw.col("duplicate_count") > 1
    number = nw.col("duplicate_count").cast(nw.String)
    rows = with_problem(
        side_rows(table, spark, version, keys),
        ~readable | several,
        reason=first_of((~readable, text("value cannot be read")), otherwise=text("duplicate key")),
        detail=first_of(
            (~readable, text(f"the {side} row is not JSON text: repair or delete it")),
            otherwise=nw.concat_str(number, text(f" {side}{DUPLICATES}")),
        ),
        value=nw.col("text"),
        name=f"{side}_problem",
    )
    return rows.select(
        "key",
        nw.when(readable).then(nw.col("value")).alias(side),
        nw.when(readable).then(nw.col("hash")).alias(f"{side}_hash"),
        nw.col("timestamp").alias(f"{side}_timestamp"),
        f"{side}_problem",
    )


def _shown(join_type: str) -> nw.Expr:
    """Whether a key has a result."""
    left, right = exists("left"), exists("right")
    return {"inner": left & right, "left": left, "outer": left | right}[join_type]


def _pair(selection: str) -> nw.Expr:
    """The identity of a result: the hashes of both rows, and the fingerprint of the select."""
    hashes = [nw.coalesce(nw.col(name), text("")) for name in ("left_hash", "right_hash")]
    return nw.concat_str(*hashes, *([text(selection)] if selection else []), separator=":")


def _emit(pairs: Rows, shown: nw.Expr, selection: str, *, emit_all: bool) -> Rows:
    """The rows of the log for results that differ from the last emission, and for problems.

    A result has the later time of its two rows; a tombstone has the time of the commit.
    """
    rows = pairs.with_columns(
        shown=shown, result=nw.when(shown).then(_pair(selection)), problem=nw.coalesce("left_problem", "right_problem")
    )
    changed = ~same("result", "emitted")
    if emit_all:
        changed |= nw.col("shown") | exists("emitted")
    kind = first_of((~nw.col("changed"), text("state")), (nw.col("shown"), text("value")), otherwise=text("tombstone"))
    later_row = nw.when(nw.col("shown")).then(later(nw.col("left_timestamp"), nw.col("right_timestamp")))
    return (
        rows.with_columns(changed=changed)
        .filter(nw.col("changed") | exists("problem"))
        .select(
            "key",
            kind.alias("kind"),
            nw.when(nw.col("shown")).then(nw.col("left")).alias("left"),
            nw.when(nw.col("shown")).then(nw.col("right")).alias("right"),
            nw.coalesce(later_row, nw.col("changed_at")).alias("timestamp"),
            nw.col("result").alias("emitted"),
            "problem",
            exists("problem").alias("failed"),
        )
    )

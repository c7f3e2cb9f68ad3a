"""The join of two tables by their keys: a result pairs the rows of a key; the join type decides which may be missing.

The counterpart of Kafka Streams' ``KTable-KTable`` joins. The result table is the state: it holds the last emissions,
except of pairs whose ``select`` failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import narwhals as nw
from pyspark.sql import SparkSession

from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.resource import Begun
from kaspr_delta.engine.joins.results import (
    checked_rows,
    emitted_elsewhere,
    identity_of_result,
    logged,
    numbered,
    side_of_pairs,
    with_result,
)
from kaspr_delta.engine.joins.table_join import Pinned, TableJoin
from kaspr_delta.engine.joins.touched import Touched
from kaspr_delta.engine.rows.rows import Rows, exists, later
from kaspr_delta.engine.rows.rows_by_key import stored_rows
from kaspr_delta.plan.definition.joins import SameKeyJoinPlan
from kaspr_delta.storage.layout import PAIR
from kaspr_delta.storage.side_by_side import side_by_side


class SameKeyJoin(TableJoin[SameKeyJoinPlan]):
    """Inner, left and outer joins over two change feeds."""

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        """Recompute every key of both tables, and every key that has a result, however old."""
        pinned = self.pinned(spark)
        touched = self.every_key(spark, pinned, self.plan.result)
        return self._recompute(touched, pinned, emit_all=log_is_new), pinned.positions

    def decide(self, changes: Rows, state: Mapping[str, Any]) -> Decision:
        # Step 1: touched. Step 2: pinned.
        touched = self.touched(changes)
        return self._recompute(touched, self.pinned(changes.spark, touched.versions))

    def _recompute(self, touched: Touched, pinned: Pinned, *, emit_all: bool = False) -> Decision:
        if not touched.number:
            return Decision(touched.refused, 0)
        changed = touched.keys["left"].union(touched.keys["right"]).newest(("key",), ("changed_at",))
        keys = changed.select("key")
        # Step 3: recompute.
        left, right, emitted = side_by_side(
            [
                partial(checked_rows, self.left, keys.spark, pinned.left.version, keys),
                partial(checked_rows, self.right, keys.spark, pinned.right.version, keys),
                partial(self._emissions, keys),
            ]
        )
        pairs = changed.join(side_of_pairs(left, "left"), "key").join(side_of_pairs(right, "right"), "key")
        pairs = pairs.join(emitted, "key")
        # Step 4: difference.
        pairs = pairs.with_columns(problem=nw.coalesce("left_problem", "right_problem"))
        pairs = pairs.with_columns(emitted=emitted_elsewhere()) if emit_all else pairs
        results = with_result(pairs, self.plan.type, self.select_fingerprint)
        # The time of a result is the later one of both rows; a tombstone has the time of the commit.
        of_rows = nw.when(exists("result")).then(later(nw.col("left_timestamp"), nw.col("right_timestamp")))
        results = results.with_columns(result_timestamp=nw.coalesce(of_rows, nw.col("changed_at")))
        effects = numbered(logged(results).union(touched.refused))
        return Decision(self.with_selected(effects), touched.number)

    def _emissions(self, keys: Rows) -> Rows:
        """The identities of the stored results of keys: columns key, emitted."""
        if self.stored_result(keys.spark).plan.typed is not None:  # a select has made it
            rows = stored_rows(self.delta, keys.spark, self.plan.result, keys, {})
            return rows.select("key", nw.col(PAIR).alias("emitted"))
        hashes = {"left_hash": ("left", self.left.hash), "right_hash": ("right", self.right.hash)}
        rows = stored_rows(self.delta, keys.spark, self.plan.result, keys, hashes)
        return rows.select("key", identity_of_result("").alias("emitted"))

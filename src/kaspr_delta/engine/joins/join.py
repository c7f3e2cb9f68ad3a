"""The base of all joins: a channel, which is the log, and dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.counters import work
from kaspr_delta.engine.batch.planned_resource import PlannedResource
from kaspr_delta.engine.batch.query import side_by_side
from kaspr_delta.engine.batch.resource import Folded
from kaspr_delta.engine.rows.local_rows import read_back, union_all
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.plan.definition.joins import (
    ForeignKeyJoinPlan,
    RightForeignKeyJoinPlan,
    SameKeyJoinPlan,
    StreamStreamJoinPlan,
    StreamTableJoinPlan,
)
from kaspr_delta.storage.tables import Merged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = ("value", "tombstone")
"""The kinds of channel rows that are records; other rows are for the join itself."""

Fold: TypeAlias = Callable[[], Merged | None]
"""Brings a table up to a batch; may return the cost."""

JoinPlanT = TypeVar(
    "JoinPlanT",
    ForeignKeyJoinPlan,
    SameKeyJoinPlan,
    StreamTableJoinPlan,
    RightForeignKeyJoinPlan,
    StreamStreamJoinPlan,
)


class Join(PlannedResource[JoinPlanT]):
    """A resource whose log is a channel."""

    __slots__ = ()

    counted: ClassVar[tuple[str, ...]] = ("kind", "failed")
    """The columns of the log by which rows are counted; a third one marks stale rows."""

    def state_folds(self, rows: Rows, kinds: frozenset[str]) -> Sequence[Fold]:
        """The folds of the join's own tables for a batch with rows of these kinds; they may run in parallel."""
        raise NotImplementedError

    def letters(self, rows: DataFrame) -> DataFrame:
        value = F.col("problem.value").alias("value")
        return rows.where("failed").select("source", "key", value, "problem", "timestamp", "batch")

    def fold(self, spark: SparkSession, batch: BatchId, rows: Rows) -> Folded:
        (folded,) = self.folded([(batch, rows)], self.state_folds)
        return folded

    def folded(
        self,
        batches: Sequence[tuple[BatchId, Rows]],
        state_folds: Callable[[Rows, frozenset[str]], Sequence[Fold]],
        *,
        here: bool = False,
    ) -> Sequence[Folded]:
        """Fold successive batches at once, the join's own tables by these folds. The cost is reported with the last.

        ``here``: collect the rows to the driver first, if they are not too many.
        """
        counted: list[dict[tuple[str, ...], int]] = [rows.count_by(*self.counted) for _, rows in batches]
        kinds: frozenset[str] = frozenset(name[0] for counts in counted for name in counts)
        if not (kinds or any(self.renews_letters(batch) for batch, _ in batches)):  # only the memo has changed
            return [Folded(0, 0) for _ in batches]
        several: list[Rows] = [rows for _, rows in batches]
        if here and sum(sum(counts.values()) for counts in counted) <= self.delta.limits.logged.rows:
            several = [read_back(rows) for rows in several]
        folds: list[Fold] = [*state_folds(union_all(several), kinds)] if kinds else []
        folded: list[Folded] = [
            Folded(
                sum(count for name, count in counts.items() if name[0] in RECORDS),
                sum(count for name, count in counts.items() if name[1]),
                sum(count for name, count in counts.items() if any(name[2:])),
            )
            for counts in counted
        ]
        for (batch, rows), done in zip(batches, folded, strict=True):
            folds.extend(self.letter_folds(batch, rows, done.dead_letters))
        merged = [done for done in side_by_side(folds) if done is not None]
        return [*folded[:-1], replace(folded[-1], counts=cost_of(merged))]


def cost_of(merged: Sequence[Merged]) -> dict[str, int]:
    """The cost of merges as counters."""
    if not merged:
        return {}
    return {work(one.name): sum(getattr(done, one.name) for done in merged) for one in fields(Merged)}

"""What all joins have in common as resources: a channel, which is their log, and dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import functions as F

from kaspr_delta.engine.dead_letters import fold_dead_letters
from kaspr_delta.engine.log import BatchId
from kaspr_delta.engine.planned import Planned
from kaspr_delta.engine.query import side_by_side
from kaspr_delta.engine.resource import Folded
from kaspr_delta.engine.rows import Rows
from kaspr_delta.plan.join_plans import (
    ForeignKeyJoinPlan,
    RightForeignKeyJoinPlan,
    SameKeyJoinPlan,
    StreamStreamJoinPlan,
    StreamTableJoinPlan,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = ("value", "tombstone")
"""The kinds of rows of a channel that are records; the others are for the join itself."""

JoinPlanT = TypeVar(
    "JoinPlanT",
    ForeignKeyJoinPlan,
    SameKeyJoinPlan,
    StreamTableJoinPlan,
    RightForeignKeyJoinPlan,
    StreamStreamJoinPlan,
)


class Join(Planned[JoinPlanT]):
    """A resource whose log is a channel."""

    __slots__ = ()

    def state_folds(self, rows: Rows, kinds: frozenset[str]) -> Sequence[Callable[[], None]]:
        """What brings the join's own tables up to a batch that has rows of these kinds; may run side by side."""
        raise NotImplementedError

    def letters(self, rows: DataFrame) -> DataFrame:
        """The failed rows of a batch as dead letters: columns source, key, value, problem, timestamp, batch."""
        value = F.col("problem.value").alias("value")
        return rows.where("failed").select("source", "key", value, "problem", "timestamp", "batch")

    def fold(self, spark: SparkSession, batch: BatchId, rows: Rows) -> Folded:
        counts: dict[tuple[str, ...], int] = rows.count_by("kind", "failed")
        if not counts:  # only the state that the memo holds has changed
            return Folded(0, 0)
        letters = sum(count for (_, failed), count in counts.items() if failed)
        folds = [*self.state_folds(rows, frozenset(kind for kind, _ in counts))]
        if letters:
            folds.append(partial(fold_dead_letters, self.delta, self.letters(rows.df), str(self.ref), batch))
        side_by_side(folds)
        return Folded(sum(count for (kind, _), count in counts.items() if kind in RECORDS), letters)

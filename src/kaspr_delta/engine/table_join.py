"""What joins of two tables have in common: both change feeds in one query, both tables pinned for a batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pyspark.sql import functions as F

from kaspr_delta.engine.dead_letters import problem
from kaspr_delta.engine.join import Join
from kaspr_delta.engine.live_table import LiveTable
from kaspr_delta.engine.log import Start
from kaspr_delta.engine.query import side_by_side
from kaspr_delta.plan.definition import TablePlan
from kaspr_delta.plan.join_plans import ForeignKeyJoinPlan, SameKeyJoinPlan
from kaspr_delta.storage.delta import Commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


TableJoinPlanT = TypeVar("TableJoinPlanT", ForeignKeyJoinPlan, SameKeyJoinPlan)


class Pinned(NamedTuple):
    """The versions of both tables that count for a batch."""

    left: Commit
    right: Commit


class TableJoin(Join[TableJoinPlanT]):
    """A join over two change feeds, with a result table."""

    __slots__ = ()

    @property
    def left(self) -> LiveTable:
        """The table whose rows drive the join."""
        return LiveTable(self.delta, self.application.rows_of(self.plan.left))

    @property
    def right(self) -> LiveTable:
        """The table that they are joined with."""
        return LiveTable(self.delta, self.application.rows_of(self.plan.right))

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

    def pinned(self, spark: SparkSession) -> Pinned:
        """The newest versions, which a batch is to see from now on."""
        return Pinned(*side_by_side([partial(table.newest, spark) for table in (self.left, self.right)]))

    def letters(self, rows: DataFrame) -> DataFrame:
        return super().letters(rows.withColumn("source", F.lit(f"{self.plan.left},{self.plan.right}")))


def identity(table: TablePlan) -> str:
    """What a join's state depends on of a table: which one it is, and how it spells keys and values.

    Columns of a typed table are not part of it: one that is added changes no row.
    """
    spelled = ", ".join(table.typed.key) if table.typed else f"{table.serializers.key}, {table.serializers.value}"
    return f"{table.delta_name} ({spelled})"


def refused(touched: DataFrame) -> DataFrame:
    """Touched keys that cannot be joined, as rows of the log that change nothing and carry the problem."""
    hint = F.when(
        F.col("reason") == "null key", F.lit("a row without a key belongs to nothing: give it a key or delete it")
    ).otherwise(
        F.concat(F.lit('write keys as canonical JSON text: text in quotes ("P100"), objects sorted; table: '), "side")
    )
    return touched.where(F.col("reason").isNotNull()).select(
        "key",
        F.lit("state").alias("kind"),
        F.col("changed_at").alias("timestamp"),
        problem(F.col("reason"), hint, F.lit(None).cast("string")).alias("problem"),
        F.lit(True).alias("failed"),
    )

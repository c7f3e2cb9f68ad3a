"""The fold of an agent's log: append to topics, write tables, keep dead letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import narwhals as nw
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.counters import counter
from kaspr_delta.engine.batch.dead_letters import fold_dead_letters
from kaspr_delta.engine.batch.query import side_by_side
from kaspr_delta.engine.batch.resource import Folded
from kaspr_delta.engine.batch.topics import append_to_topic, make_topic
from kaspr_delta.engine.rows.keyed_table import KeyedTable, state_of
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.streams.effect import RECORD
from kaspr_delta.engine.windows import PASSED, pass_window
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class EffectFold:
    """Brings topics, tables and dead letters up to one batch of effects. Idempotent."""

    delta: Tables
    application: Plan
    resource: ResourceRef

    def fold(self, spark: SparkSession, batch: BatchId, rows: Rows) -> Folded:
        """Fold all effects of a batch, in parallel; windows pass after the writes."""
        counts = rows.count_by("kind", "target")
        folds: list[Callable[[], None]] = []
        windows = {target for kind, target in counts if kind in PASSED}
        for kind, target in counts:
            mine = rows.filter((nw.col("kind") == kind) & (nw.col("target") == target))
            if kind == "send":
                folds.append(partial(self._append_to_topic, spark, mine, target, batch))
            elif kind == "write":
                folds.append(partial(self._write_table, mine, target))
        letters = sum(count for (kind, _), count in counts.items() if kind == "dead-letter")
        if letters:
            folds.append(partial(fold_dead_letters, self.delta, _letters(rows.df), str(self.resource), batch))
        side_by_side(folds)
        if windows:
            self._pass_windows(spark, rows.df.where(F.col("kind").isin(*PASSED)))
        done = sum(count for (kind, _), count in counts.items() if kind in {"send", "write"})
        sent = {counter("topic_messages_sent", to): count for (kind, to), count in counts.items() if kind == "send"}
        return Folded(done, letters, counts=sent)

    def _append_to_topic(self, spark: SparkSession, rows: Rows, topic: str, batch: BatchId) -> None:
        if self.application.topic(topic) is None:  # the name came from a nameSelector
            make_topic(self.delta, spark, topic)
        append_to_topic(self.delta, rows.select(*RECORD), topic, batch)

    def _write_table(self, rows: Rows, name: str) -> None:
        table = self._state_of(name)
        also = ("timestamp", "stream") if table.plan.window else ("timestamp",)
        last = rows.select(*table.row_key, "seq", "value", *also).newest(table.row_key, ("seq",))
        texts = {name: nw.col(name).cast(nw.String) for name in ("key", "value")}
        table.write(last.with_columns(**texts))

    def _pass_windows(self, spark: SparkSession, rows: DataFrame) -> None:
        """Show the windows that closed, then remove those that expired; both after all writes."""
        for row in sorted(rows.collect(), key=lambda row: str(row["kind"])):
            pass_window(self.delta, spark, self.application.known_table(row["target"]), row)

    def _state_of(self, name: str) -> KeyedTable:
        return state_of(self.delta, self.application.known_table(name))


def _letters(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("kind") == "dead-letter").select(
        F.col("target").alias("source"),
        _readable("key"),
        _readable("value"),
        "problem",
        "timestamp",
        "batch",
    )


def _readable(column: str) -> Column:
    """Bytes as readable text; bytes that are not UTF-8 show as replacement characters."""
    return F.make_valid_utf8(F.col(column).cast("string")).alias(column)

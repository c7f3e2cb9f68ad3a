"""The base of resources whose log holds effects, and their fold: append to topics, write tables, keep dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.counters import counter
from kaspr_delta.engine.batch.planned_resource import Fold, Found, LoggedPlan, PlannedResource, kinds_of
from kaspr_delta.engine.batch.resource import Folded
from kaspr_delta.engine.batch.topics import append_to_topic, make_topic
from kaspr_delta.engine.rows.keyed_table import state_table
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.streams.effect import RECORD
from kaspr_delta.engine.windows import PASSED, pass_windows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PlanT = TypeVar("PlanT", bound=LoggedPlan)


class EffectResource(PlannedResource[PlanT]):
    """A resource whose log holds effects."""

    __slots__ = ()

    counted = ("kind", "target")

    def numbers(self, counts: Mapping[tuple[Any, ...], int]) -> Folded:
        done = sum(count for (kind, _), count in counts.items() if kind in {"send", "write"})
        letters = sum(count for (kind, _), count in counts.items() if kind == "dead-letter")
        sent = {counter("topic_messages_sent", to): count for (kind, to), count in counts.items() if kind == "send"}
        return Folded(done, letters, counts=sent)

    def folds(self, rows: Rows, found: Found, batches: Sequence[BatchId], *, states: bool) -> Sequence[Fold]:
        folds: list[Fold] = []
        for kind, target in found:
            mine = rows.filter((nw.col("kind") == kind) & (nw.col("target") == target))
            if kind == "send":
                folds.append(partial(self._append_to_topic, mine, target, batches[-1]))
            elif kind == "write":
                folds.append(partial(self._write_table, mine, target))
        return folds

    def afterwards(self, rows: Rows, found: Found) -> None:
        if kinds_of(found).intersection(PASSED):
            pass_windows(self.delta, rows, lambda row: self.application.known_table(row["target"]))

    def letters(self, rows: DataFrame) -> DataFrame:
        source = F.col("target").alias("source")
        letters = rows.where(F.col("kind") == "dead-letter")
        return letters.select(source, _readable("key"), _readable("value"), "problem", "timestamp", "batch")

    def _append_to_topic(self, rows: Rows, topic: str, batch: BatchId) -> None:
        if self.application.topic(topic) is None:  # the name came from a nameSelector
            make_topic(self.delta, rows.spark, topic)
        append_to_topic(self.delta, rows.select(*RECORD), topic, batch)

    def _write_table(self, rows: Rows, name: str) -> None:
        table = state_table(self.delta, self.application.known_table(name))
        also = ("timestamp", "stream") if table.plan.window else ("timestamp",)
        last = rows.select(*table.row_key_columns, "seq", "value", *also).newest(table.row_key_columns, ("seq",))
        texts = {name: nw.col(name).cast(nw.String) for name in ("key", "value")}
        table.write(last.with_columns(**texts))


def _readable(column: str) -> Column:
    """Bytes as readable text; bytes that are not UTF-8 show as replacement characters."""
    return F.make_valid_utf8(F.col(column).cast("string")).alias(column)

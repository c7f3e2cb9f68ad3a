"""The base of joins of two tables: both change feeds in one query, both tables pinned for a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

import narwhals as nw
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId, Start
from kaspr_delta.engine.batch.dead_letters import Renewed
from kaspr_delta.engine.batch.resource import Fold, Found, Resource, kinds_of
from kaspr_delta.engine.joins.results import IS_VALUE, IS_VALUE_IN_SQL
from kaspr_delta.engine.joins.select import SelectRow, selected_columns
from kaspr_delta.engine.joins.touched import Touched, touched_keys
from kaspr_delta.engine.rows.keyed_table import KeyedTable, changed_keys
from kaspr_delta.engine.rows.local_rows import set_adaptive, union_all
from kaspr_delta.engine.rows.rows import Rows, exists, text, union_of
from kaspr_delta.plan.definition.joins import TableTableJoinPlan
from kaspr_delta.plan.names import current_view, value_view
from kaspr_delta.spec.ddl import Column, Type
from kaspr_delta.storage.layout import PAIR, RECORDS, SELECTED, WRITTEN_AT
from kaspr_delta.storage.side_by_side import side_by_side
from kaspr_delta.storage.stored_results import Replacement, as_stored, problems_of, result_layout_of
from kaspr_delta.storage.tables import Commit, Merged, Scan, Upsert

TableJoinPlanT = TypeVar("TableJoinPlanT", bound=TableTableJoinPlan)


class Pinned(NamedTuple):
    """The pinned versions of both tables."""

    left: Commit
    right: Commit

    @property
    def positions(self) -> Mapping[str, int]:
        """The positions of a stream that continues after these versions."""
        return {"left": self.left.version, "right": self.right.version}


class TableJoin(Resource[TableJoinPlanT]):
    """A join over two change feeds, with a result table."""

    @property
    def sides(self) -> Mapping[str, KeyedTable]:
        """Both tables. Their order is part of the checkpoint."""
        left, right = self.application.sides_of(self.plan)
        return {"left": KeyedTable(self.delta, left), "right": KeyedTable(self.delta, right)}

    @property
    def left(self) -> KeyedTable:
        """The table whose rows drive the join."""
        return self.sides["left"]

    @property
    def right(self) -> KeyedTable:
        """The table that they are joined with."""
        return self.sides["right"]

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        """The change feeds in one query, so that one checkpoint covers both."""
        positions = start.positions
        return union_of(
            table.feed(spark, side, positions[side]) for side, table in self.sides.items() if side in positions
        )

    def arrived(self, spark: SparkSession, after: Mapping[str, int], upto: Mapping[str, int]) -> Rows | None:
        if self.plan.select is not None:  # Spark makes its columns
            return None
        found = [table.arrived(spark, side, after[side], upto[side]) for side, table in self.sides.items()]
        parts = [rows for rows in found if rows is not None]
        return union_all(parts) if len(parts) == len(found) else None

    def touched(self, changes: Rows) -> Touched:
        """Step 1: the keys that a batch of the stream touches."""
        set_adaptive(changes.spark, self.delta.limits)
        touched = self._touched_of(changes)
        set_adaptive(changes.spark, self.delta.limits, *touched.keys.values())
        return touched

    def every_key(self, spark: SparkSession, pinned: Pinned, state: str) -> Touched:
        """Step 1 of a new checkpoint: all keys of both tables, and all keys of a table with state, however old."""
        known = changed_keys(self.delta, spark, state, "left", pinned.left)
        left, right = self.left.keys(spark, "left", pinned.left), self.right.keys(spark, "right", pinned.right)
        return self._touched_of(union_all([left, known, right]))

    def _touched_of(self, changes: Rows) -> Touched:
        texts = {side: table.text for side, table in self.sides.items()}
        return touched_keys(changes, texts, self.delta.limits)

    def pinned(self, spark: SparkSession, upto: Mapping[str, int] | None = None) -> Pinned:
        """The versions that the batch reads from now on. ``upto``: its newest changes by side, see ``Tables.pin``."""
        upto = {} if upto is None else upto
        pins = [partial(table.pin, spark, upto.get(side)) for side, table in self.sides.items()]
        return Pinned(*side_by_side(pins))

    @property
    def select_fingerprint(self) -> str:
        """The fingerprint of the select; empty without one."""
        return self.plan.select.fingerprint if self.plan.select else ""

    def with_selected(self, effects: Rows) -> Rows:
        """Rows of the log with the result of the select function, if there is one."""
        select = self.plan.select
        if select is None or select.function is None or effects.max_rows == 0:
            return effects
        row = Type("STRUCT", fields=select.declared)
        how = SelectRow(select.function, row, (self.left.plan, self.right.plan), self.event_timeout)
        return effects.extend(how, f"{SELECTED} STRING")

    def folds(self, rows: Rows, found: Found, batches: Sequence[BatchId]) -> Sequence[Fold]:
        has_records = kinds_of(found).intersection(RECORDS)
        return [partial(self.fold_result, rows, several=len(batches) > 1)] if has_records else []

    def fold_result(self, rows: Rows, *, several: bool) -> Merged:
        """Merge the records of one batch, or of ``several``, into the result table."""
        made = self.result_rows(rows, several=several)
        if self.plan.select is None:
            upsert = Upsert(compare=("left", "right"), also=("timestamp",), keep="keep", sole_writer=True)
            values = stored_in_log(rows, IS_VALUE_IN_SQL, several=several)
            return self.delta.merge(rows.spark, made.frame, self.plan.result, upsert, values)
        shown = tuple(name for name in made.columns if name not in {"key", PAIR, "keep"})
        upsert = Upsert(compare=(PAIR,), also=shown, keep="keep", sole_writer=True)
        return self.delta.merge(rows.spark, made.frame, self.plan.result, upsert)

    @property
    def result(self) -> KeyedTable:
        return KeyedTable(self.delta, self.application.table_or_result(self.plan.name))

    def stored_result(self, spark: SparkSession) -> KeyedTable:
        columns = self._other_columns(spark) if self.expects_other_columns else None
        if columns is None:
            return self.result
        join = as_stored(self.plan, columns, self.plan.stored)
        joins = tuple(join if one.ref == self.ref else one for one in self.application.joins)
        stored = replace(self.application, joins=joins)
        return KeyedTable(self.delta, stored.table_or_result(self.plan.name))

    @property
    def expects_other_columns(self) -> bool:
        return bool(self.plan.other_columns)

    def has_other_columns(self, spark: SparkSession) -> bool:
        return self._other_columns(spark) is not None

    def replace_result(self, spark: SparkSession) -> None:
        if not self.has_other_columns(spark):
            return
        self._replacement.begin()
        for view in (value_view(self.plan.name), current_view(self.plan.name)):  # they name the old columns
            self.delta.drop_view(spark, view)
        self.delta.drop(spark, self.plan.result)
        self.delta.create(spark, self.plan.result, result_layout_of(self.application, self.plan))

    def end_replacement(self) -> None:
        self._replacement.end()

    @property
    def _replacement(self) -> Replacement:
        return Replacement(self.delta.namespace.checkpoints, self.ref)

    def _other_columns(self, spark: SparkSession) -> tuple[Column, ...] | None:
        """The columns of the stored result; None if they fit."""
        columns = self.delta.columns(spark, self.plan.result)
        return columns if problems_of(columns, result_layout_of(self.application, self.plan)) else None

    def result_rows(self, effects: Rows, *, several: bool = False) -> Rows:
        records, select = effects.filter(nw.col("kind").is_in(RECORDS)), self.plan.select
        records = newest_by_key(records, several=several)
        keep = IS_VALUE
        if select is None:
            return records.select("key", "left", "right", "timestamp", keep.alias("keep"))
        if select.function is not None:
            keep &= exists(SELECTED)
        records = records.with_columns(keep=keep)
        df = records.df  # before any column of Spark is made, for which a session must run
        shown = selected_columns(select, self.left.plan, self.right.plan)
        own = (F.col("timestamp").alias(WRITTEN_AT), F.col("emitted").alias(PAIR), "keep")
        return records.made(df.select("key", *(column.alias(name) for name, column in shown.items()), *own))

    @property
    def renewed(self) -> Renewed:
        """All: a new checkpoint reads all rows of both tables."""
        return Renewed(every=True)

    def letters(self, rows: Rows) -> Rows:
        return super().letters(rows.with_columns(source=text(f"{self.plan.left},{self.plan.right}")))


def newest_by_key(rows: Rows, *, several: bool) -> Rows:
    """Rows of the log; of ``several`` batches the last row of each key."""
    return rows.newest(("key",), ("checkpoint", "batch")) if several else rows


def stored_in_log(rows: Rows, condition: str, *, several: bool) -> Scan | None:
    """A scan of the rows of one batch for which a condition holds: a new table may be filled by copying it.

    None for the rows of several batches, and for rows that are not read back from the log.
    """
    return None if rows.scan is None or several else rows.scan.where(condition)

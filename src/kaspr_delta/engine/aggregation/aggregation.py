"""The common base of tables made from streams or tables, as resources: the fold of groups and the fold of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import narwhals as nw

from kaspr_delta.engine.aggregation.fold_groups import Change, FoldGroups
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.decision import Folded
from kaspr_delta.engine.batch.resource import Fold, Found, Resource, kinds_of
from kaspr_delta.engine.rows.keyed_table import KeyedTable, state_table
from kaspr_delta.engine.rows.local_rows import numbered_as
from kaspr_delta.engine.rows.rows import Rows, exists, none_like, text
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.engine.windows import pass_windows
from kaspr_delta.plan.definition.joins import AggregationPlan, StreamPlan
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.layout import AGGREGATED


class Aggregation(Resource[AggregationPlan]):
    """A table made from a stream or table, as a resource."""

    @property
    def table(self) -> KeyedTable:
        """The table with all groups: a separate state table if windows are shown only when they close."""
        return state_table(self.delta, self.application.known_table(self.plan.name))

    @property
    def grouping(self) -> Selector | None:
        """The function that returns the group of a value; None without ``groupBy``."""
        if self.plan.group is None:
            return None
        return Selector(self.plan.group, self.table.text, "groupBy", "group", self.event_timeout, looks_up=False)

    def folded(
        self, given: Rows, changes: Rows, order: Sequence[str], values: TableText, *, anew: bool = False
    ) -> Rows:
        """Fold changes into the rows of their groups before: rows of AGGREGATED.

        ``changes`` (see ``Change``) are made of the ``given`` rows. ``order`` are columns that order the changes of a
        group. With ``anew`` the groups had no rows.
        """
        rows = changes if anew else changes.union(self._before(changes))
        # NULL sorts first: the row that a group had before has no order.
        rows = numbered_as(given, rows, ("grp", "window_start", *order), ("grp", "window_start"))
        fold = FoldGroups(self.plan, values, self.table.text, self.event_timeout)
        return rows.select(*Change._fields).map(fold, AGGREGATED)

    counted = ("kind",)
    failed = nw.col("kind") == "failed"

    def numbers(self, counts: Mapping[tuple[Any, ...], int]) -> Folded:
        return Folded(counts.get(("write",), 0), counts.get(("failed",), 0))

    def folds(self, rows: Rows, found: Found, batches: Sequence[BatchId]) -> Sequence[Fold]:
        return [partial(self._fold_writes, rows)] if "write" in kinds_of(found) else []

    def afterwards(self, rows: Rows, found: Found) -> None:
        pass_windows(self.delta, rows, found, lambda _: self.application.known_table(self.plan.name))

    def rows_before(self, groups: Rows) -> Rows:
        """The rows of the table for these groups (see ``KeyedTable.live_rows``)."""
        return self.table.with_text_values(self.table.live_rows(groups.spark, None, groups))

    def _before(self, changes: Rows) -> Rows:
        """The rows of the changed groups before the changes, as changes ``before``."""
        groups = changes.select(nw.col("grp").alias("key"), *self.table.plan.row_key_columns[1:])
        window = nw.col("window_start") if self.table.plan.window else none_like("timestamp")
        return self.rows_before(groups).select(
            nw.col("key").alias("grp"), window.alias("window_start"), text("before").alias("op"), "value", "timestamp"
        )

    def _fold_writes(self, rows: Rows) -> None:
        # A total over a stream has the greatest time of its records: its row is written if only the time changes. Over
        # a table the time is stored separately.
        timely = isinstance(self.plan.origin, StreamPlan) and self.plan.kind != "toTable"
        self.table.write(self.written(rows), timely=timely)

    def written(self, rows: Rows) -> Rows:
        """The rows of the log that are written to the table (see ``KeyedTable.write``)."""
        windows = ("window_start", "stream") if self.table.plan.window else ()
        return rows.filter(nw.col("kind") == "write").select("key", "value", "timestamp", *windows)


def failed_rows(rows: Rows, **constants: nw.Expr) -> Rows:
    """Rows with a problem as ``failed`` rows of the log; ``constants`` replace columns."""
    failed = rows.filter(exists("problem")).with_columns(kind=text("failed"), **constants)
    return failed.select("kind", "key", "timestamp", "source", "problem")

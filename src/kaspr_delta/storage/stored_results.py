"""The stored result of a join of two tables where its columns are those of an earlier ``select``.

A rebuild makes such a table anew. Until then it is read as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from kaspr_delta.functions.column_paths import Path
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import SelectPlan, StoredTypes, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.definition.typed_tables import changed_columns
from kaspr_delta.spec.ddl import Column, Type, columns_of
from kaspr_delta.storage.folders import Folder
from kaspr_delta.storage.layout import PAIR, WRITTEN_AT, Layout
from kaspr_delta.storage.plan_tables import layout_of

_OWN = frozenset({"key", WRITTEN_AT, PAIR})


def changes_to(layout: Layout, has: Collection[Column]) -> tuple[list[tuple[Path, Type]], list[str]]:
    """The columns to add to a table to give it those of a layout, and the differences that remain."""
    before, now = (Type("STRUCT", fields=tuple(some)) for some in (has, columns_of(layout.columns)))
    return changed_columns(before, now)


def problems_of(has: Collection[Column], layout: Layout) -> list[str]:
    """The differences between the columns of a table and those of a layout that added columns do not solve."""
    return changes_to(layout, has)[1]


def result_layout_of(plan: Plan, join: TableTableJoinPlan) -> Layout:
    """The layout of a join's result by its definition."""
    return layout_of(plan, join.ref, join.result)


def is_result(columns: Collection[Column]) -> bool:
    """Whether a join has made a table with these columns. A table of the same name that is not a result is none."""
    names = {column.name for column in columns}
    return "key" in names and (PAIR in names or {"left", "right", "timestamp"} == names - {"key"})


def as_stored(join: TableTableJoinPlan, columns: Collection[Column], types: StoredTypes) -> TableTableJoinPlan:
    """The join with the columns of its stored result, and the types of left and right in its channel."""
    shown = tuple(column for column in columns if column.name not in _OWN)
    select = SelectPlan((), None, shown) if any(column.name == PAIR for column in columns) else None
    return replace(join, select=select, stored=types, other_columns=())


def results_to_replace(plan: Plan) -> Iterator[TableTableJoinPlan]:
    """The joins of which the next rebuild makes the result anew, with other columns."""
    yield from (one for one in plan.joins if isinstance(one, TableTableJoinPlan) and one.other_columns)


def is_to_replace(plan: Plan, ref: ResourceRef) -> bool:
    """Whether the next rebuild makes the result of a resource anew, with other columns."""
    return any(join.ref == ref for join in results_to_replace(plan))


@dataclass(frozen=True, slots=True)
class Replacement:
    """A mark, beside the checkpoints, from before the result of a join is dropped until the new one has its rows.

    Readers wait while it is there: columns alone do not tell that rows are missing.
    """

    folder: Folder
    ref: ResourceRef

    @property
    def is_under_way(self) -> bool:
        """Whether the result may lack rows; False where the folder is out of reach."""
        with contextlib.suppress(OSError):
            return self.folder.has_file(self._name)
        return False

    def begin(self) -> None:
        """Set the mark."""
        self.folder.make()
        self.folder.write(self._name, b"")

    def end(self) -> None:
        """Remove the mark. Where that fails, the next run of the join does it."""
        with contextlib.suppress(OSError):
            self.folder.remove(self._name)

    @property
    def _name(self) -> str:
        # The folders of checkpoints begin with the kind of a resource, and so never with an underscore.
        return f"_replaced-{self.ref.kind}-{self.ref.name}"

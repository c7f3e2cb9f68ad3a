"""Why the result of a join of two tables is as it is for one key: sentences made from the rows of its stations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinType, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.serde.json_text import value_text
from kaspr_delta.serde.typed_values import plain_json

_Rows = Sequence[dict[str, Any]]

# Whether a join has a result, by whether it has a left and a right row.
_HAS_RESULT: dict[JoinType, Callable[[bool, bool], bool]] = {
    "inner": lambda left, right: left and right,
    "left": lambda left, _: left,
    "outer": lambda left, right: left or right,
}
_NEEDS: dict[JoinType, str] = {"inner": "both rows", "left": "a left row", "outer": "a row"}


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of a key. ``subscription`` is None for a join by key; ``emitted`` are responses, the newest first."""

    left: _Rows
    subscription: _Rows | None
    right: _Rows
    emitted: _Rows
    result: _Rows


@dataclass(frozen=True, slots=True)
class Side:
    """The left or right table of a join. ``has_values``: its rows are keys and values, not columns."""

    label: str
    has_values: bool

    @classmethod
    def of(cls, plan: Plan, name: str) -> Side:
        """The table, or the result of a join, of that name."""
        table = plan.table(name)
        return cls(plan.label_of(name), table is not None and table.typed is None)

    def only_rows(self, rows: _Rows) -> _Rows:
        """Those that count as rows: one whose value is null does not."""
        return [row for row in rows if row.get("value") is not None] if self.has_values else rows

    def gives(self, value: Any, rows: _Rows) -> bool:
        """Whether a response with this value has been made from these rows, as far as both have the same columns."""
        if len(rows) > 1:  # which of them it was made from is not known
            return True
        if not rows:
            return value is None
        shown, row = plain_json(value), plain_json(rows[0])
        if self.has_values:
            return bool(shown == row["value"])
        return isinstance(shown, dict) and all(row[name] == one for name, one in shown.items() if name in row)


@dataclass(frozen=True, slots=True)
class Reasons:
    """The sentences of one join. ``selects``: its result has other columns than its responses."""

    ref: ResourceRef
    type: JoinType
    left: Side
    right: Side
    selects: bool

    @classmethod
    def of(cls, plan: Plan, join: TableTableJoinPlan) -> Reasons:
        """The reasons of a join of an application."""
        sides = Side.of(plan, join.left), Side.of(plan, join.right)
        return cls(join.ref, join.type, *sides, selects=join.select is not None)

    def given(self, found: Found) -> list[str]:
        """The sentences for the rows of a key, in the order in which they follow from each other."""
        found = replace(found, left=self.left.only_rows(found.left), right=self.right.only_rows(found.right))
        there = bool(found.left), bool(found.right)
        return [*self._left(found), *self._key(found), *self._right(found), self._rule(*there), self._now(found)]

    def _left(self, found: Found) -> Iterator[str]:
        if not found.left:
            yield f"{self.left.label} has no row with this key."
        if len(found.left) > 1:
            yield f"{self.left.label} has several rows with this key: the join uses one, and reports a dead letter."

    def _key(self, found: Found) -> Iterator[str]:
        """The foreign key, and whether the join has processed the left row."""
        if found.subscription is None:
            return
        if not found.subscription:
            if found.left:
                yield "There is no subscription: the join has not processed the left row yet."
            return
        if not found.left:
            yield "The subscription is still there: the join has not processed yet that the row is gone."
        key = found.subscription[0]["foreign key"]
        if key is None:
            yield f"There is no foreign key: the extractor returned None, or failed (see dead letters of {self.ref})."
        else:
            yield f"The extractor returned the foreign key {value_text(plain_json(key))}."

    def _right(self, found: Found) -> Iterator[str]:
        refers = found.subscription is None or any(row["foreign key"] is not None for row in found.subscription)
        if refers and not found.right:
            yield f"{self.right.label} has no row with that key."

    def _rule(self, left: bool, right: bool) -> str:  # noqa: FBT001  whether there is a row of each side
        kind = f"{'A' if self.type == 'left' else 'An'} {self.type} join"
        if not _HAS_RESULT[self.type](left, right):
            return f"{kind} makes no result without {_NEEDS[self.type]}."
        if left and right:
            return "Both rows are there, so the join makes a result."
        return f"{kind} makes a result all the same, with null on the {'right' if left else 'left'} side."

    def _now(self, found: Found) -> str:
        """Whether the result is the one that follows from the rows, and what happens next if it is not."""
        # A response that a retry put there again belongs to no batch.
        newest = next((row for row in found.emitted if row["batch"] is not None), None)
        result = next(iter(found.result), None)
        if newest is not None and not self._is_folded(newest, result):
            return "The newest response is not in the result yet: the next run folds it."
        if not self._follows(found, newest, has_result=result is not None):
            since = "There is no response yet" if newest is None else "A row has changed since the newest response"
            return f"{since}: the next run of the join makes one."
        if result is None:
            return "So there is none."
        return f"The {'newest response' if self.selects else 'result'} is that of the rows as they are now."

    def _is_folded(self, newest: Mapping[str, Any], result: Mapping[str, Any] | None) -> bool:
        if result is None or newest["kind"] == "tombstone":
            return result is None and newest["kind"] == "tombstone"
        return self.selects or all(newest[side] == result[side] for side in ("left", "right"))

    def _follows(self, found: Found, newest: Mapping[str, Any] | None, *, has_result: bool) -> bool:
        """Whether the result is the one that follows from the rows, as far as the newest response tells."""
        if _HAS_RESULT[self.type](bool(found.left), bool(found.right)) != has_result:
            return False
        if newest is None or not has_result:
            return True
        return self.left.gives(newest["left"], found.left) and self.right.gives(newest["right"], found.right)

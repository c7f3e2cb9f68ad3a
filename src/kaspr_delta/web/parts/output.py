"""The newest output of an agent or task: its effects, as its log has them."""

from __future__ import annotations

from typing import Any

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import AgentPlan, TaskPlan
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.storage.layout import EFFECTS
from kaspr_delta.storage.page_reads import PageReads, RowFilter, RowsFound
from kaspr_delta.web.parts.listing import Asked, Listing, listing

_KINDS = {"send": "topic", "write": "table"}
_COLUMNS = ("kind", "target", "key", "value", "timestamp", "partition", "problem", "batch")


def output(tables: PageReads, plan: Plan, pipeline: AgentPlan | TaskPlan, asked: Asked) -> Listing | str:
    """The newest records that were sent, rows that were written, and dead letters; or why they cannot be read."""
    columns = {one.name: one.type for one in columns_of(EFFECTS.columns) if one.name in _COLUMNS}
    kinds = RowFilter({"kind": (*_KINDS, "dead-letter")}, asked.find)
    order = ("checkpoint", "batch", "seq")
    found = tables.rows(pipeline.log, None, columns, kinds, order, asked.reach, newest=True)
    if isinstance(found, str):
        return found
    rows = tuple(_effect(plan, row) for row in found.rows)
    return listing(asked, RowsFound(found.count, rows), ("key", "value"))


def _effect(plan: Plan, row: Any) -> dict[str, Any]:
    """One effect. A write without a value deletes a row, a send without a value is a tombstone."""
    kind, target = row["kind"], row["target"]
    changelog = plan.changelog(target)
    known = {"topic": plan.topic(target), "table": plan.table(target) or changelog}.get(_KINDS.get(kind, ""))
    return {
        "to": str(known.ref) if known else target,
        "done": kind if row["value"] is not None else {"write": "delete", "send": "tombstone"}.get(kind, kind),
        "key": row["key"],
        "value": row["value"],
        "timestamp": row["timestamp"],
        **({"problem": row["problem"]["reason"]} if row["problem"] else {}),
    }

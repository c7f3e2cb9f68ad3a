"""The columns of a resource's rows: those of the key, and those that hold JSON text."""

from __future__ import annotations

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.serde.joined_text import json_columns


def json_of(plan: Plan, ref: ResourceRef) -> tuple[str, ...]:
    """The columns of JSON text in the rows of a table, in the results of a join or in the records of a topic."""
    join = plan.join(ref.name) if ref.kind == "join" else None
    if join is not None:
        return json_columns(join, plan)
    one = plan.table(ref.name) if ref.kind == "table" else plan.topic(ref.name)
    return () if one is None or getattr(one, "typed", None) is not None else one.serializers.json_columns


def key_columns(plan: Plan, ref: ResourceRef) -> tuple[str, ...]:
    """The columns of the key in the rows of a table, or of a join's result."""
    table = plan.table(ref.name) if ref.kind == "table" else None
    return table.typed.key if table is not None and table.typed is not None else ("key",)

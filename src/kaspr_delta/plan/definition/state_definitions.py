"""The definitions of states: a state that another one has made is not continued, but rebuilt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from kaspr_delta.errors import RebuildNeededError
from kaspr_delta.plan.definition import joins
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef

OTHER_COLUMNS = "its result has other columns than its definition gives it"
"""The reason for a rebuild of a join whose definition has made the state, and whose result somebody has changed."""


def definition_of(plan: Plan, ref: ResourceRef) -> Mapping[str, str]:
    """The definition of a resource's state, by names that people use. A change makes a rebuild due.

    Empty: no state. Changed code continues at the current position. Columns of typed tables are not part of it: one
    that is added changes no row.
    """
    match plan.running(ref):
        case joins.ForeignKeyJoinPlan() | joins.SameKeyJoinPlan() as join:
            tables = {"left table": _identity(plan, join.left), "right table": _identity(plan, join.right)}
            select = {"select": join.select.fingerprint} if join.select else {}
            extractor = {"extractor": join.extractor.fingerprint} if isinstance(join, joins.ForeignKeyJoinPlan) else {}
            return {"type": join.type, **tables, **select, **extractor}
        case joins.StreamTableJoinPlan() as join:
            return {"stream": join.left.name, "table": plan.table_or_result(join.right).delta_name}
        case joins.RightForeignKeyJoinPlan() as join:
            sides = {"stream": join.left.name, "table": plan.table_or_result(join.right).delta_name}
            return {**sides, "rightExtractor": join.extractor.fingerprint}
        case joins.StreamStreamJoinPlan() as join:
            window = f"{join.before}, {join.after}, {join.grace} ms"
            return {"type": join.type, "window": window, "left": join.left.name, "right": join.right.name}
        case joins.AggregationPlan(origin=str(origin)) as made:
            functions = {"groupBy": made.group, "initializer": made.initializer, "adder": made.adder}
            functions["subtractor"] = made.subtractor
            fingerprints = {name: snippet.fingerprint for name, snippet in functions.items() if snippet is not None}
            return {"table": _identity(plan, origin), "kind": made.kind, **fingerprints}
    return {}


def compared_with(definition: Mapping[str, str]) -> str:
    """The beginning of the text of a comparison: it differs between definitions."""
    fingerprint = hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()[:8]
    return f"with definition {fingerprint}"


def rebuild_needed(ref: ResourceRef, before: Mapping[str, str], now: Mapping[str, str]) -> RebuildNeededError | None:
    """The error that a state was made by another definition; None if it was not."""
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if not changed:
        return None
    verb = "has" if len(changed) == 1 else "have"
    return RebuildNeededError(str(ref), f"its {' and '.join(changed)} {verb} changed since its state was made")


def _identity(plan: Plan, name: str) -> str:
    """The identity of a table for a state: its name, and the columns of its key or the serializers."""
    table = plan.table_or_result(name)
    spelled = ", ".join(table.typed.key) if table.typed else f"{table.serializers.key}, {table.serializers.value}"
    return f"{table.delta_name} ({spelled})"

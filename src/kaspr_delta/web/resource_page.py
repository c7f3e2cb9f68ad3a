"""The page of one resource: how it stands, what its batches did, its rows now, before its last change, and long ago."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kaspr_delta.plan.application_plan import Plan
from kaspr_delta.plan.definition import ResourceRef
from kaspr_delta.plan.join_plans import TableTableJoinPlan
from kaspr_delta.runtime.dead_letters import DeadLetters
from kaspr_delta.runtime.kubectl import yaml_text
from kaspr_delta.runtime.registry import Registry
from kaspr_delta.runtime.standing import Standing, events_of
from kaspr_delta.storage.delta_rs import DeltaRs, literal
from kaspr_delta.storage.layout import PROGRESS
from kaspr_delta.web.past import Past
from kaspr_delta.web.visitor import Visitor

# Batches of a chart.
_BATCHES = 40


@dataclass(frozen=True, slots=True)
class ResourcePage:
    """What the template of a resource is given."""

    delta: DeltaRs
    registry: Registry
    plan: Plan

    def of(self, one: Standing, visitor: Visitor) -> dict[str, Any]:
        """All there is to tell of a resource."""
        batches = list(self._batches(one.ref))
        letters = DeadLetters(self.delta, self.plan).counts()
        return {
            "title": str(one.ref),
            "one": one,
            "letters": sum(count for (name, _), count in letters.items() if name == str(one.ref)),
            "spec": yaml_text(one.resource["spec"]) if one.resource.get("spec") else "",
            "events": events_of(self.registry.events(), one.document),
            "batches": batches,
            "longest": max((batch["seconds"] for batch in batches), default=0) or 1,
            "most_rows": max((batch["rows_in"] for batch in batches), default=0) or 1,
            **self._rows(one, visitor),
        }

    def _rows(self, one: Standing, visitor: Visitor) -> dict[str, Any]:
        """Its rows, the newest or those of a version, and what its last change did."""
        past = self._past(one)
        versions = range(0) if past is None else past.versions
        if past is None or not versions:
            return {"last": None, "then": None, "versions": range(0), "key": "", "asks_key": False}
        asked, key = visitor.query.get("version", ""), visitor.query.get("key", "").strip()
        version = int(asked) if asked.isdecimal() and len(asked) < len(str(2**63)) else versions.stop - 1
        return {
            "last": past.last_change(),
            "then": past.then(version, key),
            "versions": versions,
            "key": key,
            "asks_key": past.has_text_keys,
        }

    def _past(self, one: Standing) -> Past | None:
        """The past of what a resource keeps on this machine's disk."""
        if one.keeps is None or self.delta.namespace.location(one.keeps) is None:
            return None
        table = self.plan.table(one.ref.name) if one.ref.kind == "table" else None
        if table is not None and table.typed is not None:
            return Past(self.delta, one.keeps, table.typed.key, is_typed=True)
        join = self.plan.join(one.ref.name) if one.ref.kind == "join" else None
        selects = isinstance(join, TableTableJoinPlan) and join.select is not None
        return Past(self.delta, one.keeps, is_typed=selects)

    def _batches(self, ref: ResourceRef) -> Iterator[dict[str, Any]]:
        """The last batches of a resource, the oldest first."""
        columns = '"at", "rows_in", "rows_out", "dead_letters", "seconds"'
        where = f"resource = {literal(str(ref))}"
        newest = f"SELECT {columns} FROM t WHERE {where} ORDER BY checkpoint DESC, batch DESC LIMIT {_BATCHES}"  # noqa: S608
        yield from reversed(self.delta.rows(PROGRESS, newest))

"""Resources that wait, the resources that wait with them, and a plan without all of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import PipelinePlan, ResourceRef
from kaspr_delta.plan.graph import graph_of, reached

_FOR = "waits for "


def reason_of_reader(ref: ResourceRef, reason: str) -> str:
    """The reason of a resource that depends on one that waits: it names the resource that waits for something else.

    >>> reason_of_reader(ResourceRef("table", "wards"), "its change data feed is off")
    'waits for table/wards'
    >>> reason_of_reader(ResourceRef("join", "beds"), "waits for table/wards")
    'waits for table/wards'
    """
    return reason if reason.startswith(_FOR) else f"{_FOR}{ref}"


def in_words(reason: str) -> str:
    """A reason behind the name of its resource.

    >>> in_words("its change data feed is off"), in_words("waits for table/wards")
    ('waits: its change data feed is off', 'waits for table/wards')
    """
    return reason if reason.startswith(_FOR) else f"waits: {reason}"


def what_for(reason: str) -> str:
    """A reason below a heading that says *waits for*."""
    return reason.removeprefix(_FOR)


def with_readers(plan: Plan, reasons: Mapping[ResourceRef, str]) -> dict[ResourceRef, str]:
    """The reasons of resources that wait, and of the resources that depend on them."""
    graph = graph_of(_dependencies(plan, reasons), map(str, reasons))
    kinds = (plan.topics, plan.tables, plan.joins, plan.agents, plan.tasks, plan.web_views)
    refs = {str(one.ref): one.ref for kind in kinds for one in kind}
    found = dict(reasons)
    for ref, reason in reasons.items():
        for reader in reached(graph, str(ref)):
            if reader in refs:
                found.setdefault(refs[reader], reason_of_reader(ref, reason))
    return found


def waiting_with(plan: Plan, reasons: Mapping[ResourceRef, str]) -> Plan:
    """The plan with further resources, and the resources that depend on them, marked as waiting."""
    return replace(plan, waiting=tuple(sorted({**with_readers(plan, reasons), **dict(plan.waiting)}.items())))


def without_waiting(plan: Plan, reasons: Mapping[ResourceRef, str]) -> Plan:
    """The plan without the resources that wait and without those that depend on them."""
    if not reasons:
        return plan
    gone = with_readers(plan, reasons)
    kinds = ("topics", "tables", "joins", "aggregations", "agents", "tasks", "web_views")
    kept: dict[str, Any] = {kind: tuple(one for one in getattr(plan, kind) if one.ref not in gone) for kind in kinds}
    groups = (tuple(ref for ref in group if ref not in gone) for group in plan.groups)
    stages = (replace(stage, resources=tuple(r for r in stage.resources if r not in gone)) for stage in plan.stages)
    return replace(
        waiting_with(plan, reasons),
        **kept,
        groups=tuple(group for group in groups if group),
        stages=tuple(stage for stage in stages if stage.resources),
    )


def _dependencies(plan: Plan, reasons: Mapping[ResourceRef, str]) -> Iterator[tuple[str, str]]:
    """Pairs of a resource and one that depends on it.

    A topic waits alone if its own table cannot be used: then its readers and writers wait. The output of an agent that
    waits exists all the same.
    """
    lost = {str(ref) for ref in reasons if ref.kind == "topic"}
    for edge in plan.edges:
        if edge.source.startswith(("table/", "join/")) or edge.source in lost:
            yield edge.source, edge.target
        if edge.target in lost:
            yield edge.target, edge.source
    pipelines: tuple[PipelinePlan, ...] = (*plan.agents, *plan.tasks, *plan.web_views)
    for one in pipelines:
        yield from ((plan.label_of(table), str(one.ref)) for table in one.tables)

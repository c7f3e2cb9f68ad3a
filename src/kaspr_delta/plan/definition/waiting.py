"""A plan without the resources that wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import networkx as nx

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import AgentPlan, ResourceRef, TaskPlan, WebViewPlan


def without_waiting(plan: Plan, waiting: Mapping[ResourceRef, str]) -> Plan:
    """The plan without the resources that wait, given the reasons, and without those that depend on them."""
    if not waiting:
        return plan
    graph: nx.DiGraph[str] = nx.DiGraph(_dependencies(plan, waiting))
    reasons = dict(waiting)
    kinds = (plan.topics, plan.tables, plan.joins, plan.agents, plan.tasks, plan.web_views)
    refs = {str(one.ref): one.ref for kind in kinds for one in kind}
    for ref, reason in waiting.items():
        readers: Iterable[str] = nx.descendants(graph, str(ref)) if str(ref) in graph else ()
        for reader in readers:
            if reader in refs:
                reasons.setdefault(refs[reader], f"{ref} waits: {reason}")
    stages = (replace(s, resources=tuple(r for r in s.resources if r not in reasons)) for s in plan.stages)
    return replace(
        plan,
        topics=tuple(one for one in plan.topics if one.ref not in reasons),
        tables=tuple(one for one in plan.tables if one.ref not in reasons),
        joins=tuple(one for one in plan.joins if one.ref not in reasons),
        aggregations=tuple(one for one in plan.aggregations if one.ref not in reasons),
        agents=tuple(one for one in plan.agents if one.ref not in reasons),
        tasks=tuple(one for one in plan.tasks if one.ref not in reasons),
        web_views=tuple(one for one in plan.web_views if one.ref not in reasons),
        groups=tuple(kept for group in plan.groups if (kept := tuple(ref for ref in group if ref not in reasons))),
        stages=tuple(stage for stage in stages if stage.resources),
        waiting=tuple(sorted({**dict(plan.waiting), **reasons}.items())),
    )


def _dependencies(plan: Plan, waiting: Mapping[ResourceRef, str]) -> Iterator[tuple[str, str]]:
    """Pairs of a resource and one that depends on it.

    A topic waits alone if its own table cannot be used: then its readers and writers wait. The output of an agent that
    waits exists all the same.
    """
    lost = {str(ref) for ref in waiting if ref.kind == "topic"}
    for edge in plan.edges:
        if edge.source.startswith(("table/", "join/")) or edge.source in lost:
            yield edge.source, edge.target
        if edge.target in lost:
            yield edge.target, edge.source
    pipelines: tuple[AgentPlan | TaskPlan | WebViewPlan, ...] = (*plan.agents, *plan.tasks, *plan.web_views)
    for one in pipelines:
        yield from ((f"table/{table}", str(one.ref)) for table in one.tables)

"""The units of work of a plan: the resources that one Databricks task runs, and the tasks that must run before it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Literal

import networkx as nx

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinPlan
from kaspr_delta.plan.definition.resources import AgentPlan, ResourceRef, TablePlan, TopicPlan
from kaspr_delta.spec.diagnostics import Location

Layout = Literal["one", "group", "resource"]

EVERYTHING = "application"
"""The key of a task that runs all resources."""

# Databricks allows 100 characters in a task's key.
_LONGEST_KEY = 100


@dataclass(frozen=True, slots=True)
class Work:
    """Resources that one task runs, with the tasks that come before it."""

    key: str
    resources: tuple[ResourceRef, ...]
    location: Location
    description: str
    after: tuple[str, ...]

    @property
    def title(self) -> str:
        """The resources as ``kind/name``, joined by plus signs."""
        return " + ".join(str(resource) for resource in self.resources)


def work_of(plan: Plan, layout: Layout = "group") -> tuple[Work, ...]:
    """The units of work of a plan, in an order in which they may run one after another.

    With the layout ``one`` all resources are one unit. With ``group`` several resources are a unit if they share tables
    (they take turns) or feed one another (they run until all are quiet). With ``resource`` those that share tables are
    units that come one after another.

    Keys are unique. ``after`` names only earlier keys, without those that already follow from other units' ``after``.
    Waiting resources are left out.
    """
    order = [resource for stage in plan.stages for resource in stage.resources]
    if layout == "one":
        whole = Work(EVERYTHING, tuple(order), plan.location, "", ())
        return (whole,) if order else ()
    parts = _parts(plan, order, plan.groups if layout == "group" else ())
    graph = _graph_of_parts(plan, parts)
    position = {part: order.index(part[0]) for part in parts}
    if layout == "resource":
        _chain_groups(graph, plan, position)
    keys = {part: task_key(part) for part in parts}
    return tuple(
        _work(plan, part, keys[part], tuple(sorted(keys[before] for before in graph.predecessors(part))))
        for part in nx.lexicographical_topological_sort(graph, key=position.__getitem__)
    )


def task_key(resources: tuple[ResourceRef, ...]) -> str:
    """A key that Databricks accepts, with the resources' names in it; different resources have different keys.

    >>> task_key((ResourceRef("join", "orders-products-join"),))
    'join_orders-products-join'
    """
    written = "__".join(f"{resource.kind}_{resource.name}" for resource in resources)
    # Only for names without an underscore: then all underscores in the key are separators, and the key is unambiguous.
    plain = re.fullmatch(r"[A-Za-z0-9_-]+", written) and not any("_" in resource.name for resource in resources)
    if plain and len(written) <= _LONGEST_KEY:
        return written
    digest = hashlib.sha256(" ".join(map(str, resources)).encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', written)[: _LONGEST_KEY - 9]}_{digest}"


Part = tuple[ResourceRef, ...]


def _parts(plan: Plan, order: list[ResourceRef], groups: tuple[Part, ...]) -> tuple[Part, ...]:
    """The runnable resources in parts: one task must run all of a part. Each part is in the order of the stages.

    Members of one of the ``groups``, and resources that feed one another, are in one part.
    """
    together: nx.Graph[ResourceRef] = nx.Graph()
    together.add_nodes_from(order)
    loops = [stage.resources for stage in plan.stages if stage.loop]
    for members in (*groups, *loops):
        together.add_edges_from(combinations((member for member in members if member in together), 2))
    flow = _flow(plan)
    while True:
        parts = tuple(tuple(sorted(part, key=order.index)) for part in nx.connected_components(together))
        # A group can enclose a join that one of its agents feeds and another one reads: then they are one part.
        circles = [circle for circle in _circles(flow, parts) if len(circle) > 1]
        if not circles:
            return parts
        for circle in circles:
            together.add_edges_from((first[0], second[0]) for first, second in combinations(circle, 2))


def _chain_groups(graph: nx.DiGraph[Part], plan: Plan, position: dict[Part, int]) -> None:
    """Let the parts of resources that share tables come one after another, in an order that the graph allows."""
    order = list(nx.lexicographical_topological_sort(graph, key=position.__getitem__))
    for group in plan.groups:
        graph.add_edges_from(pairwise(part for part in order if not set(part).isdisjoint(group)))


def _circles(flow: nx.DiGraph[str], parts: tuple[Part, ...]) -> list[list[Part]]:
    circles = nx.strongly_connected_components(_merged(flow, parts))
    return [[node for node in circle if not isinstance(node, str)] for circle in circles]


def _graph_of_parts(plan: Plan, parts: tuple[Part, ...]) -> nx.DiGraph[Part]:
    """The graph of the parts that feed other parts through tables and topics, without edges that follow from others."""
    merged = _merged(_flow(plan), parts)
    feeds: nx.DiGraph[Part] = nx.DiGraph()
    feeds.add_nodes_from(parts)
    for part in parts:
        later = (node for node in nx.descendants(merged, part) if not isinstance(node, str))
        feeds.add_edges_from((part, node) for node in later if node != part)
    direct: nx.DiGraph[Part] = nx.transitive_reduction(feeds)
    return direct


def _flow(plan: Plan) -> nx.DiGraph[str]:
    flow: nx.DiGraph[str] = nx.DiGraph()
    flow.add_edges_from((edge.source, edge.target) for edge in plan.edges)
    return flow


def _merged(flow: nx.DiGraph[str], parts: tuple[Part, ...]) -> nx.DiGraph[str | Part]:
    """The data flow with the resources of a part merged into one node."""
    part_of = {str(resource): part for part in parts for resource in part}
    merged: nx.DiGraph[str | Part] = nx.DiGraph()
    merged.add_nodes_from(parts)
    merged.add_edges_from((part_of.get(source, source), part_of.get(target, target)) for source, target in flow.edges)
    return merged


def _work(plan: Plan, part: Part, key: str, after: tuple[str, ...]) -> Work:
    declared = [_declared(plan, resource) for resource in part]
    descriptions = [description for _, description in declared if description]
    return Work(key, part, declared[0][0], "; ".join(descriptions), after)


def _declared(plan: Plan, resource: ResourceRef) -> tuple[Location, str]:
    """Where a resource is declared, and its description."""
    known: JoinPlan | TablePlan | AgentPlan | TopicPlan | None
    match resource.kind:
        case "join":
            known = plan.join(resource.name)
        case "table":
            known = plan.table(resource.name)
        case "agent":
            known = plan.agent(resource.name)
        case _:
            known = plan.topic(resource.name)
    if known is None:
        msg = f"{resource} stands in a stage of the plan but is not declared in it"
        raise LookupError(msg)
    if isinstance(known, TopicPlan):
        return known.bound.location, known.bound.text
    return known.location, known.description

"""The units of work of a plan: the resources that one Databricks task runs, and the tasks that must run before it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from itertools import pairwise, permutations
from typing import Literal

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinPlan
from kaspr_delta.plan.definition.resources import AgentPlan, ResourceRef, TopicPlan
from kaspr_delta.plan.graph import graph_of, parts_in_order, reached
from kaspr_delta.spec.diagnostics import Location

Layout = Literal["one", "group", "resource"]

EVERYTHING = "application"
"""The key of a task that runs all resources."""
WAITING = "waiting"
"""The key of a task for the resources that have none of their own because they wait."""

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

    With the layout ``one`` all resources are one unit. So is a plan in which all wait, or of which only web views are
    served: its task says so, and applies the manifests. With ``group`` several resources are a unit if they share
    tables (they take turns) or feed one another (they run until all are quiet). With ``resource`` those that share
    tables are units that come one after another.

    Keys are unique. ``after`` names only earlier keys, without those that already follow from other units' ``after``.
    Waiting resources are left out: see ``waiting_work``.
    """
    order = [resource for stage in plan.stages for resource in stage.resources]
    if layout == "one" or not order:
        whole = Work(EVERYTHING, tuple(order), plan.location, "", ())
        return (whole,) if order or plan.waiting or plan.web_views else ()
    before = _parts(plan, order, plan.groups if layout == "group" else ())
    position = {part: order.index(part[0]) for part in before}
    if layout == "resource":
        _chain_groups(before, plan, position)
    keys = {part: task_key(part) for part in before}
    return tuple(
        _work(plan, part, keys[part], tuple(sorted(keys[earlier] for earlier in before[part])))
        for part in _in_order(before, position)
    )


def waiting_work(plan: Plan, work: tuple[Work, ...]) -> tuple[Work, ...]:
    """The unit of the resources that are in no unit of ``work`` because they wait: no other one depends on its task.

    None if one unit is everything, or if nothing waits.
    """
    refs = tuple(ref for ref, _ in plan.waiting)
    if not refs or any(unit.key == EVERYTHING for unit in work):
        return ()
    return (Work(WAITING, refs, plan.location, "they wait", ()),)


def task_key(resources: tuple[ResourceRef, ...]) -> str:
    """A key that Databricks accepts, with the resources' names in it; different resources have different keys.

    >>> task_key((ResourceRef("join", "orders-products-join"),))
    'join_orders-products-join'
    """
    written = "__".join(f"{resource.kind}_{resource.name}" for resource in resources)
    # Only for names without an underscore: then all underscores in the key are separators, and the key is unambiguous.
    # A reference in a bundle ends with a letter or a digit.
    plain = re.fullmatch(r"[A-Za-z0-9_-]*[A-Za-z0-9]", written) and not any(
        "_" in resource.name for resource in resources
    )
    if plain and len(written) <= _LONGEST_KEY:
        return written
    digest = hashlib.sha256(" ".join(map(str, resources)).encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', written)[: _LONGEST_KEY - 9]}_{digest}"


Part = tuple[ResourceRef, ...]


def _parts(plan: Plan, order: list[ResourceRef], groups: tuple[Part, ...]) -> dict[Part, set[Part]]:
    """The runnable resources in parts, each with those that come directly before it: one task must run all of a part.

    Members of one of the ``groups``, and resources that feed one another, are in one part; so is a join that one agent
    of a group feeds and another one reads. A part that already comes before another one of these is left out.
    """
    runnable = {str(resource): resource for resource in order}
    edges = [(edge.source, edge.target) for edge in plan.edges]
    for members in (*groups, *(stage.resources for stage in plan.stages if stage.loop)):
        edges.extend(permutations((str(member) for member in members if str(member) in runnable), 2))
    flow = graph_of(edges, runnable)
    found = ([runnable[label] for label in labels if label in runnable] for labels in parts_in_order(flow))
    parts = [tuple(sorted(part, key=order.index)) for part in found if part]
    fed = {part: reached(flow, str(part[0])) for part in parts}
    before = {part: {other for other in parts if other != part and str(part[0]) in fed[other]} for part in parts}
    return {part: before[part].difference(*(before[other] for other in before[part])) for part in parts}


def _in_order(before: Mapping[Part, set[Part]], position: Mapping[Part, int]) -> list[Part]:
    """The parts, each behind those before it. Of several that may come next, the one of the least position does."""
    sorter = TopologicalSorter(before)
    sorter.prepare()
    order: list[Part] = []
    ready: list[tuple[int, Part]] = []
    while sorter.is_active():
        for part in sorter.get_ready():
            heappush(ready, (position[part], part))
        order.append(heappop(ready)[1])
        sorter.done(order[-1])
    return order


def _chain_groups(before: dict[Part, set[Part]], plan: Plan, position: Mapping[Part, int]) -> None:
    """Let the parts of resources that share tables come one after another, in an order that ``before`` allows."""
    order = _in_order(before, position)
    for group in plan.groups:
        for earlier, later in pairwise(part for part in order if not set(part).isdisjoint(group)):
            before[later].add(earlier)


def _work(plan: Plan, part: Part, key: str, after: tuple[str, ...]) -> Work:
    declared = [_declared(plan, resource) for resource in part]
    descriptions = [description for _, description in declared if description]
    return Work(key, part, declared[0][0], "; ".join(descriptions), after)


def _declared(plan: Plan, resource: ResourceRef) -> tuple[Location, str]:
    """Where a resource is declared, and its description."""
    if resource.kind == "table":
        table = plan.known_table(resource.name)
        return table.location, table.description
    running = plan.running(resource)
    if isinstance(running, TopicPlan):
        return running.bound.location, running.bound.text
    if isinstance(running, JoinPlan | AgentPlan):
        return running.location, running.description
    raise LookupError(f"{resource} stands in a stage of the plan but is not declared in it")

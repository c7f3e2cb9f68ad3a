"""The order in which resources run: along the data flow. Resources that feed one another run together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from kaspr_delta.plan.definition import resources as plans
from kaspr_delta.plan.definition.application import Stage
from kaspr_delta.plan.definition.joins import AggregationPlan, JoinPlan, StreamPlan, TableTableJoinPlan
from kaspr_delta.plan.drawing.picture import Edge
from kaspr_delta.plan.graph import Graph, graph_of, parts_in_order, turned


def data_flow(
    joins: Collection[JoinPlan],
    aggregations: Iterable[AggregationPlan],
    agents: Iterable[plans.AgentPlan],
    tables: Mapping[str, plans.TablePlan],
    changelogs: Mapping[str, str],
) -> tuple[Edge, ...]:
    """The edges of the data flow, sorted. Topics whose names a function computes are missing: only its run tells them.

    ``changelogs`` are tables by the name of their changelog: a send to a changelog writes the table. A table that an
    agent reads and writes is behind the agent.
    """
    results = {join.name for join in joins if isinstance(join, TableTableJoinPlan)} - set(changelogs.values())

    def feeder(read: StreamPlan | str) -> str:
        if isinstance(read, str):
            return f"join/{read}" if read in results else f"table/{read}"
        return f"join/{read.input.join}" if isinstance(read.input, plans.ChannelInput) else _node(read.name, changelogs)

    edges: set[Edge] = set()
    for join in joins:
        edges |= {Edge(feeder(join.left), str(join.ref)), Edge(feeder(join.right), str(join.ref))}
    made = {aggregation.name: feeder(aggregation.origin) for aggregation in aggregations}
    edges |= {Edge(origin, f"table/{table}") for table, origin in made.items()}
    for agent in agents:
        written = {
            table
            for table in agent.tables
            if table not in made and table not in results and plans.may_write(agent, table, tables.get(table))
        }
        edges |= set(_edges_of_agent(agent, written, changelogs, results))
    return tuple(sorted(edges, key=lambda edge: (edge.source, edge.target)))


def stages(resources: Iterable[plans.ResourceRef], edges: Iterable[Edge]) -> tuple[Stage, ...]:
    """The resources in stages: each needs only earlier ones to be quiet. Each loop is a stage of its own."""
    by_label = {str(resource): resource for resource in resources}
    graph = _graph(edges, by_label)
    feeders = turned(graph)
    level: dict[str, int] = {}
    runs_at: defaultdict[int, list[Stage]] = defaultdict(list)
    for labels in parts_in_order(graph):
        running = tuple(by_label[label] for label in labels if label in by_label)
        before = [level[feeder] for label in labels for feeder in feeders[label] if feeder in level]
        depth = max(before, default=0) + bool(running)
        level |= dict.fromkeys(labels, depth)
        if running:
            # A part with one label is no loop: each way back leads over an agent, and from there over a topic or a
            # table. A definition that feeds itself is refused.
            runs_at[depth].append(Stage(running, loop=len(labels) > 1))
    return tuple(stage for number in sorted(runs_at) for stage in _side_by_side(runs_at[number]))


def groups(agents: Collection[plans.AgentPlan], tables: Collection[str]) -> tuple[tuple[plans.ResourceRef, ...], ...]:
    """Groups of agents that share ``tables``, directly or through others. Each group and all groups are sorted."""
    refs = {str(agent.ref): agent.ref for agent in agents}
    uses = [(str(agent.ref), f"table/{table}") for agent in agents for table in agent.tables if table in tables]
    both_ways = graph_of([*uses, *((table, agent) for agent, table in uses)])
    members = (tuple(sorted(refs[label] for label in part if label in refs)) for part in parts_in_order(both_ways))
    return tuple(sorted(members))


def definition_cycles(edges: Iterable[Edge]) -> tuple[tuple[str, ...], ...]:
    """Circles of definitions, such as a join over its own result. Circles through agents are not among them.

    An agent reacts to events, so a circle through it is a loop of messages that comes to rest; a circle of definitions
    has no beginning. Of definitions that reach one another there is one circle, a shortest one: there may be more than
    anybody can read.
    """
    defined = [edge for edge in edges if not edge.source.startswith("agent/") and not edge.target.startswith("agent/")]
    graph = _graph(defined)
    circles = (_shortest_circle(graph, part) for part in parts_in_order(graph))
    return tuple(sorted(circle for circle in circles if circle))


def _shortest_circle(graph: Graph, part: Sequence[str]) -> tuple[str, ...]:
    """A shortest circle through the first label of a part, inside it; empty if there is none."""
    start, inside = part[0], frozenset(part)
    came_from: dict[str, str] = {}
    reached = [start]
    for label in reached:
        for target in sorted(graph[label]):
            if target == start:
                circle = [label]
                while circle[-1] != start:
                    circle.append(came_from[circle[-1]])
                return tuple(reversed(circle))
            if target in inside and target not in came_from:
                came_from[target] = label
                reached.append(target)
    return ()


def tables_in_results(joins: Iterable[JoinPlan], edges: Iterable[Edge]) -> dict[str, int]:
    """By join of tables, how many tables its result has rows of: those of a result that it joins count all."""
    of = {str(join.ref): join for join in joins if isinstance(join, TableTableJoinPlan)}
    found: dict[str, int] = {}
    for label in chain.from_iterable(parts_in_order(_graph(edges))):
        if label in of:
            sides = (f"join/{side}" for side in (of[label].left, of[label].right))
            found[label] = sum(found.get(side, 1) for side in sides)
    return found


def _edges_of_agent(
    agent: plans.AgentPlan, written: Collection[str], changelogs: Mapping[str, str], results: Collection[str]
) -> Iterator[Edge]:
    ref = str(agent.ref)
    if isinstance(agent.input, plans.TopicInput):
        for topic in agent.input.topics:
            yield Edge(_node(topic, changelogs), ref)
    else:
        yield Edge(f"join/{agent.input.join}", ref)
    for table in agent.tables:
        kind = "join" if table in results else "table"
        yield Edge(ref, f"{kind}/{table}") if table in written else Edge(f"{kind}/{table}", ref)
    for topic in filter(None, (send.topic for send in plans.sends_of(agent))):
        yield Edge(ref, _node(topic, changelogs))


def _node(topic: str, changelogs: Mapping[str, str]) -> str:
    return f"table/{changelogs[topic]}" if topic in changelogs else f"topic/{topic}"


def _graph(edges: Iterable[Edge], labels: Iterable[str] = ()) -> Graph:
    return graph_of(((edge.source, edge.target) for edge in edges), labels)


def _side_by_side(parts: Sequence[Stage]) -> Iterator[Stage]:
    """One stage for all resources outside loops, then one for each loop."""
    alone = sorted(resource for part in parts if not part.loop for resource in part.resources)
    if alone:
        yield Stage(tuple(alone))
    yield from sorted((part for part in parts if part.loop), key=lambda part: part.resources)

"""The topology of an application as boxes and lines: data flows from left to right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import mean

import networkx as nx

from kaspr_delta.plan.definition.application import Edge, Plan
from kaspr_delta.plan.definition.resources import PipelinePlan, ResourceRef, sends_of

WIDTH, HEIGHT = 200, 48
# The gap between two columns has room for the texts above and below a line.
_ACROSS, _DOWN, _MARGIN = 274, 78, 16
# The size of these texts.
TEXT_WIDTH, TEXT_HEIGHT = 44, 18
# Their possible positions, as fractions of the line: the first free one is taken.
_PLACES = (0.5, 0.35, 0.65, 0.25, 0.75)


@dataclass(frozen=True, slots=True)
class Box:
    """A topic, table, join, agent, task or web view, with the position of its upper left corner."""

    ref: ResourceRef
    x: int
    y: int

    @property
    def label(self) -> str:
        """The resource or topic as ``kind/name``."""
        return str(self.ref)


@dataclass(frozen=True, slots=True)
class Line:
    """One box feeds another one: the curve as an SVG path, and the middle of the texts beside it."""

    edge: Edge
    path: str
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and lines, and their total size."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    width: int
    height: int


def picture(plan: Plan) -> Picture:
    """The picture of a plan."""
    edges = edges_of(plan)
    columns = _columns(plan, edges)
    boxes = {
        label: Box(ResourceRef.of(label), _MARGIN + column * _ACROSS, _MARGIN + row * _DOWN)
        for column, labels in enumerate(columns)
        for row, label in enumerate(labels)
    }
    lines = tuple(_lines(edges, boxes))
    width = 2 * _MARGIN + max(0, len(columns) - 1) * _ACROSS + WIDTH
    height = 2 * _MARGIN + max(0, max(map(len, columns), default=1) - 1) * _DOWN + HEIGHT
    return Picture(tuple(boxes.values()), lines, width, height)


def edges_of(plan: Plan) -> list[Edge]:
    """The edges of a plan, and those of web views and tasks: the tables that they read, the topics they send to."""
    edges = list(plan.edges)
    users: tuple[PipelinePlan, ...] = (*plan.web_views, *plan.tasks)
    for user in users:
        edges += [Edge(plan.label_of(table), str(user.ref)) for table in user.tables]
        topics = dict.fromkeys(send.topic for send in sends_of(user) if send.topic is not None)
        edges += [Edge(str(user.ref), f"topic/{topic}") for topic in topics]
    return edges


def _columns(plan: Plan, edges: list[Edge]) -> list[list[str]]:
    """The labels column by column: sources stand left of their targets, except in loops."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    named = (plan.tables, plan.joins, plan.agents, plan.tasks, plan.web_views)
    graph.add_nodes_from(f"topic/{topic.name}" for topic in plan.topics)
    graph.add_nodes_from(str(one.ref) for kind in named for one in kind)
    graph.add_edges_from((edge.source, edge.target) for edge in edges)
    together: nx.DiGraph[int] = nx.condensation(graph)
    column: dict[str, int] = {}
    first: dict[int, int] = {}
    for part in nx.topological_sort(together):
        start = max((first[before] for before in together.predecessors(part)), default=0)
        members = sorted(together.nodes[part]["members"])
        for offset, label in enumerate(members):  # a loop is unrolled
            column[label] = start + offset
        first[part] = start + len(members)
    for label in graph:  # a box without sources stands next to its first target: short lines
        fed = [column[after] for after in graph.successors(label)]
        if fed and not any(graph.predecessors(label)):
            column[label] = min(fed) - 1
    rows: dict[str, float] = {}
    columns: defaultdict[int, list[str]] = defaultdict(list)
    for label in sorted(column, key=lambda label: (column[label], label)):
        columns[column[label]].append(label)
    for number in sorted(columns):
        columns[number].sort(key=lambda label: (_height_of_feeders(graph, label, rows), label))
        rows.update({label: row for row, label in enumerate(columns[number])})
    return [columns[number] for number in sorted(columns)]


def _height_of_feeders(graph: nx.DiGraph[str], label: str, rows: Mapping[str, float]) -> float:
    """The mean row of the boxes that feed a box: beside them it is easy to find."""
    return mean([rows[before] for before in graph.predecessors(label) if before in rows] or [0.0])


def _lines(edges: Iterable[Edge], boxes: Mapping[str, Box]) -> Iterator[Line]:
    """Lines whose texts do not overlap."""
    taken: list[Line] = []
    for edge in edges:
        source, target = boxes[edge.source], boxes[edge.target]
        curve = _Curve(source.x + WIDTH, source.y + HEIGHT // 2, target.x, target.y + HEIGHT // 2)
        positions = [Line(edge, curve.path, *curve.at(part)) for part in curve.positions]
        free = (line for line in positions if not any(_covers(line, other) for other in taken))
        line = next(free, positions[0])
        while any(_covers(line, other) for other in taken):
            line = replace(line, y=line.y + 1)
        taken.append(line)
        yield line


def _covers(one: Line, other: Line) -> bool:
    return abs(one.x - other.x) < TEXT_WIDTH and abs(one.y - other.y) < TEXT_HEIGHT


@dataclass(frozen=True, slots=True)
class _Curve:
    """A cubic Bezier curve with level ends."""

    x1: int
    y1: int
    x2: int
    y2: int

    @property
    def bend(self) -> int:
        return 40 if self.x2 > self.x1 else 90

    @property
    def path(self) -> str:
        """The curve as an SVG path."""
        x1, y1, x2, y2 = self.x1, self.y1, self.x2, self.y2
        return f"M{x1},{y1} C{x1 + self.bend},{y1} {x2 - self.bend},{y2} {x2},{y2}"

    @property
    def positions(self) -> Iterator[float]:
        """Fractions of the curve where texts may stand; on a long line before the boxes that it passes behind."""
        gap = self.x1 + _ACROSS - WIDTH
        end = next((part / 100 for part in range(1, 101) if self.at(part / 100)[0] > gap), 1.0)
        return (part * end for part in _PLACES)

    def at(self, part: float) -> tuple[int, int]:
        """The point at a fraction of the curve."""
        rest, x1, x2 = 1 - part, self.x1, self.x2
        weights = rest**3, 3 * rest**2 * part, 3 * rest * part**2, part**3
        xs, ys = (x1, x1 + self.bend, x2 - self.bend, x2), (self.y1, self.y1, self.y2, self.y2)
        x, y = (sum(weight * value for weight, value in zip(weights, of, strict=True)) for of in (xs, ys))
        return round(x), round(y)

"""The topology of an application as boxes and lines: who feeds whom, from left to right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import mean

import networkx as nx

from kaspr_delta.plan.application_plan import Edge, Plan
from kaspr_delta.plan.definition import TaskPlan, WebViewPlan, sends_of

WIDTH, HEIGHT = 200, 48
# Between two columns there is room for what stands above and below a line.
_ACROSS, _DOWN, _MARGIN = 274, 78, 16
# The room that these texts take.
_TEXT_WIDTH, _TEXT_HEIGHT = 76, 34


@dataclass(frozen=True, slots=True)
class Box:
    """A topic, table, join, agent, task or web view, with the place of its upper left corner."""

    label: str
    x: int
    y: int

    @property
    def kind(self) -> str:
        """What it is."""
        return self.label.partition("/")[0]

    @property
    def name(self) -> str:
        """How it is called."""
        return self.label.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Line:
    """That one box feeds another one: a curve, in SVG's words, and the middle of the texts beside it."""

    edge: Edge
    path: str
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and lines, and how much room they take."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    width: int
    height: int


def picture(plan: Plan) -> Picture:
    """The picture of a plan."""
    edges = [*plan.edges, *_of_views(plan)]
    columns = _columns(plan, edges)
    boxes = {
        label: Box(label, _MARGIN + column * _ACROSS, _MARGIN + row * _DOWN)
        for column, labels in enumerate(columns)
        for row, label in enumerate(labels)
    }
    lines = tuple(_apart(_line(boxes[edge.source], boxes[edge.target], edge) for edge in edges))
    width = 2 * _MARGIN + max(0, len(columns) - 1) * _ACROSS + WIDTH
    height = 2 * _MARGIN + max(0, max(map(len, columns), default=1) - 1) * _DOWN + HEIGHT
    return Picture(tuple(boxes.values()), lines, width, height)


def _of_views(plan: Plan) -> Iterator[Edge]:
    """Web views read tables and send to topics; tasks do as well."""
    users: tuple[WebViewPlan | TaskPlan, ...] = (*plan.web_views, *plan.tasks)
    for user in users:
        for table in user.tables:
            yield Edge(f"table/{table}", str(user.ref))
        for topic in dict.fromkeys(send.topic for send in sends_of(user) if send.topic is not None):
            yield Edge(str(user.ref), f"topic/{topic}")


def _columns(plan: Plan, edges: list[Edge]) -> list[list[str]]:
    """The labels column by column: what feeds stands left of what is fed, but for loops."""
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
        for place, label in enumerate(members):  # a loop is unrolled
            column[label] = start + place
        first[part] = start + len(members)
    rows: dict[str, float] = {}
    columns: defaultdict[int, list[str]] = defaultdict(list)
    for label in sorted(column, key=lambda label: (column[label], label)):
        columns[column[label]].append(label)
    for number in sorted(columns):
        columns[number].sort(key=lambda label: (_height_of_feeders(graph, label, rows), label))
        rows.update({label: row for row, label in enumerate(columns[number])})
    return [columns[number] for number in sorted(columns)]


def _height_of_feeders(graph: nx.DiGraph[str], label: str, rows: Mapping[str, float]) -> float:
    """Beside what feeds it a box is best to be found."""
    return mean([rows[before] for before in graph.predecessors(label) if before in rows] or [0.0])


def _line(source: Box, target: Box, edge: Edge) -> Line:
    x1, y1 = source.x + WIDTH, source.y + HEIGHT // 2
    x2, y2 = target.x, target.y + HEIGHT // 2
    bend = 40 if x2 > x1 else 90
    path = f"M{x1},{y1} C{x1 + bend},{y1} {x2 - bend},{y2} {x2},{y2}"
    # The texts of a long line stand before the boxes that it passes behind.
    gap = _ACROSS - WIDTH
    at = 0.5 if x2 - x1 <= gap else _parameter(gap / 2, bend, x2 - x1)
    return Line(edge, path, round(_bezier(at, x1, x1 + bend, x2 - bend, x2)), round(_bezier(at, y1, y1, y2, y2)))


def _parameter(wanted: float, bend: float, width: float) -> float:
    """Where a curve is so far to the right of its beginning."""
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if _bezier(middle, 0, bend, width - bend, width) < wanted else (low, middle)
    return low


def _bezier(at: float, a: float, b: float, c: float, d: float) -> float:
    rest = 1 - at
    return rest**3 * a + 3 * rest**2 * at * b + 3 * rest * at**2 * c + at**3 * d


def _apart(lines: Iterable[Line]) -> Iterator[Line]:
    """Lines whose texts do not cover one another: those that would are moved down."""
    taken: list[Line] = []
    for line in lines:
        y = line.y
        while any(abs(line.x - other.x) < _TEXT_WIDTH and abs(y - other.y) < _TEXT_HEIGHT for other in taken):
            y += 1
        taken.append(replace(line, y=y))
        yield taken[-1]

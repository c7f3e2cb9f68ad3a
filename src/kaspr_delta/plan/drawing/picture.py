"""Boxes in columns and the lines between them: data flows from left to right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kaspr_delta.plan.graph import Graph, graph_of, parts_in_order, turned

WIDTH, HEIGHT = 200, 48
# The gap between two columns has room for the texts above and below a line.
_ACROSS, _DOWN, _MARGIN = 274, 78, 16
# The size of these texts.
TEXT_WIDTH, TEXT_HEIGHT = 44, 18
# Their possible positions, as fractions of the line: the first free one is taken.
_PLACES = (0.5, 0.35, 0.65, 0.25, 0.75)

# The times that columns are sorted to have few crossings; an odd number.
_PASSES = 9


@dataclass(frozen=True, slots=True)
class Edge:
    """A flow of data; both ends are labels: ``topic/x``, ``table/x``, ``join/x`` or ``agent/x``."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Box:
    """A topic, table, join, agent, task or web view, with its column and the position of its upper left corner.

    ``label`` is the resource or topic as ``kind/name``.
    """

    label: str
    column: int
    x: int
    y: int

    @property
    def kind(self) -> str:
        """The kind, such as ``table``."""
        return self.label.partition("/")[0]

    @property
    def name(self) -> str:
        """The name of the resource or topic."""
        return self.label.partition("/")[2]


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


def picture(labels: Iterable[str], edges: Iterable[Edge], only: Collection[str] | None = None) -> Picture:
    """The picture of boxes with these labels, and with those of the edges.

    ``only``: these boxes alone and the lines between them, in the columns that they have among all.
    """
    edges = list(edges)
    columns = _columns(labels, edges)
    if only is not None:
        edges = [edge for edge in edges if edge.source in only and edge.target in only]
        columns = [found for column in columns if (found := [label for label in column if label in only])]
    boxes = {
        label: Box(label, column, _MARGIN + column * _ACROSS, _MARGIN + row * _DOWN)
        for column, labels in enumerate(columns)
        for row, label in enumerate(labels)
    }
    lines = tuple(_lines(edges, boxes))
    width = 2 * _MARGIN + max(0, len(columns) - 1) * _ACROSS + WIDTH
    height = 2 * _MARGIN + max(0, max(map(len, columns), default=1) - 1) * _DOWN + HEIGHT
    return Picture(tuple(boxes.values()), lines, width, height)


def _columns(labels: Iterable[str], edges: list[Edge]) -> list[list[str]]:
    """The labels column by column: sources stand left of their targets, except in loops."""
    graph = graph_of(((edge.source, edge.target) for edge in edges), labels)
    feeders = turned(graph)
    column: dict[str, int] = {}
    first: dict[str, int] = {}
    for part in parts_in_order(graph):
        start = max((first[feeder] for label in part for feeder in feeders[label] if feeder in first), default=0)
        for offset, label in enumerate(part):  # a loop is unrolled
            column[label] = start + offset
        first |= dict.fromkeys(part, start + len(part))
    for label in graph:  # a box without sources stands next to its first target: short lines
        fed = [column[after] for after in graph[label]]
        if fed and not feeders[label]:
            column[label] = min(fed) - 1
    columns: defaultdict[int, list[str]] = defaultdict(list)
    for label in sorted(column, key=lambda label: (column[label], label)):
        columns[column[label]].append(label)
    _untangle([columns[number] for number in sorted(columns)], graph, feeders)
    return [columns[number] for number in sorted(columns)]


def _untangle(columns: Sequence[list[str]], graph: Graph, feeders: Graph) -> None:
    """Sort each column by the heights of the boxes that feed it, then by those that it feeds, and so on.

    The last pass goes with the data: a box stands beside those that feed it, where it is easy to find.
    """
    height = {label: row for column in columns for row, label in enumerate(column)}
    for number in range(_PASSES):
        forward = number % 2 == 0
        for column in columns if forward else reversed(columns):
            beside = {
                label: [height[one] for one in (feeders if forward else graph)[label]] or [height[label]]
                for label in column
            }
            column.sort(key=lambda label: (sum(beside[label]) / len(beside[label]), height[label]))
            height.update({label: row for row, label in enumerate(column)})


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

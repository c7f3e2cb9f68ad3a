"""The first page: the picture of the topology, and the resources with their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kaspr_delta.control.documents import Document
from kaspr_delta.control.figures import Figures
from kaspr_delta.control.resource_status import ResourceStatus, kept_in, resource_statuses
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.drawing.picture import HEIGHT, WIDTH
from kaspr_delta.plan.graph import graph_of, reached, turned
from kaspr_delta.web.flows import flows
from kaspr_delta.web.parts.listing import Asked
from kaspr_delta.web.store import WebStore

ZOOMS = ("", "50", "75", "100", "150")
"""The sizes of the picture in percent; empty: as wide as the page, if it stays readable."""


@dataclass(frozen=True, slots=True)
class Line:
    """A resource or topic in the table. ``status`` is None for a topic that is not bound; numbers may be reasons.

    ``stage`` is 0 for one that waits and has no box.
    """

    ref: ResourceRef
    stage: int
    status: ResourceStatus | None
    rows: int | str | None
    lag: int | str | None
    letters: int | str

    @property
    def waits(self) -> bool:
        """Whether it cannot run."""
        return self.status is not None and not self.status.ready

    @property
    def age(self) -> float:
        """The moment at which it was applied, as a number; topics come first."""
        return self.status.document.created.timestamp() if self.status else 0.0


def overview_page(store: WebStore, plan: Plan, documents: Any, asked: Asked) -> dict[str, Any]:
    """The values for the template. ``documents`` reads the applied documents."""
    with ThreadPoolExecutor() as at_once:
        reading = at_once.submit(documents, store)
        figures = store.figures(plan)
        lines = _lines(plan, reading.result(), figures)
    shown = [line for line in lines if _is_asked_for(line, asked)]
    labels, near = {str(line.ref) for line in shown}, _around(plan, asked.query.get("around", ""))
    labels = labels if near is None else labels & near
    drawn = plan.picture(labels & {str(line.ref) for line in shown if line.stage})
    return {
        "title": "",
        "asked": asked,
        "picture": drawn,
        "box": (WIDTH, HEIGHT),
        "zooms": ZOOMS,
        "zoom": asked.query.get("zoom", "") if asked.query.get("zoom", "") in ZOOMS else "",
        "flows": flows(plan, figures, (line.edge for line in drawn.lines)),
        "lines": _sorted([line for line in shown if str(line.ref) in labels], asked.sort),
        "by_label": {str(line.ref): line for line in lines},
        "kinds": sorted({line.ref.kind for line in lines}),
        "total": len(lines),
        "failed": _summed(lines, "letters"),
        "behind": _summed(lines, "lag"),
        "waiting": sum(line.waits for line in lines),
        "in_order": _in_order(lines),
    }


def _lines(plan: Plan, documents: list[Document], figures: Figures) -> list[Line]:
    """All resources and topics, by stage and name."""
    stages = {box.label: box.column + 1 for box in plan.picture().boxes}
    statuses = {one.ref: one for one in resource_statuses(documents, plan, figures) if one.ref.kind != "app"}
    refs = dict.fromkeys([*(topic.ref for topic in plan.topics), *statuses])
    lines = [_line(plan, figures, ref, statuses.get(ref), stages.get(str(ref), 0)) for ref in refs]
    return sorted(lines, key=lambda line: (line.stage, line.ref))


def _line(plan: Plan, figures: Figures, ref: ResourceRef, status: ResourceStatus | None, stage: int) -> Line:
    rows, lag = (figures.rows(kept_in(plan, ref)), figures.lag(ref)) if status is None else (status.rows, status.lag)
    return Line(ref, stage, status, rows, lag, figures.letters_of(str(ref)))


def _is_asked_for(line: Line, asked: Asked) -> bool:
    """Whether the name, the kind and the state of a resource are those that the address asks for."""
    only = asked.query.get("only", "")
    states = {"failed": _number(line.letters) > 0, "behind": _number(line.lag) > 0, "waiting": line.waits}
    return (
        asked.find.lower() in str(line.ref).lower()
        and asked.query.get("kind", "") in {"", line.ref.kind}
        and states.get(only, True)
    )


def _around(plan: Plan, label: str) -> set[str] | None:
    """The labels of all boxes that a box depends on or that depend on it; None if there is no such box."""
    graph = graph_of((edge.source, edge.target) for edge in plan.drawn_edges)
    if label not in graph:
        return None
    return reached(graph, label) | reached(turned(graph), label)


def _sorted(lines: list[Line], sort: str) -> list[Line]:
    """Lines by a number, the greatest first, or by name; otherwise by stage, in their order."""
    column = sort.removeprefix("-")
    keys: Mapping[str, Any] = {
        "resource": lambda line: line.ref,
        "lag": lambda line: _number(line.lag),
        "letters": lambda line: _number(line.letters),
        "rows": lambda line: _number(line.rows),
        "ready": lambda line: line.waits,
        "age": lambda line: -line.age,
    }
    return sorted(lines, key=keys[column], reverse=sort.startswith("-")) if column in keys else lines


def _summed(lines: list[Line], name: str) -> tuple[int, int]:
    """The sum of a number, and how many resources have it."""
    numbers = [number for line in lines if (number := _number(getattr(line, name)))]
    return sum(numbers), len(numbers)


def _in_order(lines: list[Line]) -> str:
    """A sentence of the numbers that are known, where all of them are 0."""
    known = {
        words: any(isinstance(value, int) for value in values) and not any(isinstance(value, str) for value in values)
        for words, values in (
            ("no dead letters", [line.letters for line in lines]),
            ("no lag", [line.lag for line in lines]),
        )
    }
    parts = [words for words, is_known in known.items() if is_known]
    text = ", ".join([*parts, "and none waits" if parts else "none waits"])
    return f"{text[0].upper()}{text[1:]}."


def _number(value: int | str | None) -> int:
    return value if isinstance(value, int) else 0

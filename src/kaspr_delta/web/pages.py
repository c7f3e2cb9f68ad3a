"""Pages for people: the topology, a page for each resource, dead letters. Made on the server, without JavaScript."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from kaspr_delta.plan.application_plan import Plan
from kaspr_delta.plan.definition import ResourceRef
from kaspr_delta.runtime.facts import LocalFacts
from kaspr_delta.runtime.kubectl import age, yaml_text
from kaspr_delta.runtime.registry import Registry
from kaspr_delta.runtime.standing import Standing, events_of, standings
from kaspr_delta.storage.delta_rs import DeltaRs, literal
from kaspr_delta.storage.layout import DEAD_LETTERS, PROGRESS
from kaspr_delta.web.answer import Answer
from kaspr_delta.web.picture import HEIGHT, WIDTH, picture

# Rows of a sample, dead letters of a page, batches of a chart.
_SAMPLE, _LETTERS, _BATCHES = 20, 200, 40
_LONGEST = 300

Written = tuple[str, dict[str, Any]]
"""The name of a template, and what it is given."""


@dataclass(frozen=True)
class Pages:
    """The pages of an application on this machine's disk, below ``/ui``."""

    delta: DeltaRs
    registry: Registry
    _templates: Environment = field(init=False, repr=False)

    def __post_init__(self) -> None:
        templates = Environment(
            loader=PackageLoader("kaspr_delta.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        templates.filters["age"] = age
        object.__setattr__(self, "_templates", templates)

    def page(self, plan: Plan, path: str, root: str = "") -> Answer | None:
        """The page at a path below ``/ui``; None where there is none. ``root`` is a proxy's prefix of all paths."""
        found: Written | None = None
        match [part for part in path.removeprefix("/ui").split("/") if part]:
            case []:
                found = self._overview(plan)
            case ["dead-letters"]:
                found = self._dead_letters()
            case [kind, name]:
                found = self._resource(plan, ResourceRef(kind, name))
        if found is None:
            return None
        template, values = found
        text = self._templates.get_template(template).render(app=plan.application, up=f"{root}/", **values)
        policy = "default-src 'none'; style-src 'unsafe-inline'"
        headers = [("content-security-policy", policy), ("cache-control", "no-store")]
        return Answer.of(200, headers, text, "text/html")

    def _overview(self, plan: Plan) -> Written:
        everything = {str(one.ref): one for one in self._standings(plan)}
        drawn = picture(plan)
        return "overview.html", {
            "title": "",
            "picture": drawn,
            "box": (WIDTH, HEIGHT),
            "rows": {box.label: self._rows_of(box.label, plan, everything) for box in drawn.boxes},
            "letters": {label: one.done.get("dead_letters", 0) for label, one in everything.items()},
            "resources": [one for one in everything.values() if one.ref.kind != "app"],
        }

    def _resource(self, plan: Plan, ref: ResourceRef) -> Written | None:
        one = next((one for one in self._standings(plan) if one.ref == ref), None)
        if one is None:
            return None
        batches = list(self._batches(ref))
        return "resource.html", {
            "title": str(ref),
            "one": one,
            "spec": yaml_text(one.resource["spec"]) if one.resource.get("spec") else "",
            "events": events_of(self.registry.events(), one.document),
            "batches": batches,
            "longest": max((batch["seconds"] for batch in batches), default=0) or 1,
            "sample": self._sample(one),
        }

    def _dead_letters(self) -> Written:
        newest = f"SELECT * FROM t ORDER BY at DESC LIMIT {_LETTERS}"  # noqa: S608
        letters = [
            {name: _short(value) for name, value in row.items()} for row in self.delta.rows(DEAD_LETTERS, newest)
        ]
        return "dead_letters.html", {"title": "dead letters", "letters": letters, "most": _LETTERS}

    def _standings(self, plan: Plan) -> Iterator[Standing]:
        return standings(self.registry.documents(), plan, LocalFacts(self.delta, plan))

    def _rows_of(self, label: str, plan: Plan, everything: dict[str, Standing]) -> int | None:
        kind, _, name = label.partition("/")
        topic = plan.topic(name) if kind == "topic" else None
        if topic is not None:
            return self.delta.count(topic.delta_name)
        return everything[label].rows if label in everything else None

    def _batches(self, ref: ResourceRef) -> Iterator[dict[str, Any]]:
        """The last batches of a resource, the oldest first."""
        columns = '"at", "rows_in", "rows_out", "dead_letters", "seconds"'
        where = f"resource = {literal(str(ref))}"
        newest = f'SELECT {columns} FROM t WHERE {where} ORDER BY "at" DESC LIMIT {_BATCHES}'  # noqa: S608
        yield from reversed(self.delta.rows(PROGRESS, newest))

    def _sample(self, one: Standing) -> list[dict[str, str]]:
        """Some rows of what a resource keeps, as text."""
        if one.keeps is None:
            return []
        found = self.delta.rows(one.keeps, f"SELECT * FROM t LIMIT {_SAMPLE}")  # noqa: S608
        shown = ("key", "value", "left", "right", "window_start", "timestamp")
        return [{name: _short(row[name]) for name in shown if name in row} for row in found]


def _short(value: Any) -> str:
    match value:
        case None:
            return ""
        case bytes():
            value = value.decode("utf-8", "replace")
        case dict() | list():
            value = json.dumps(value, default=str)
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"

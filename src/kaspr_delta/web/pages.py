"""Pages for people: the topology, a page for each resource, dead letters. Made on the server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from kaspr_delta.plan.application_plan import Plan
from kaspr_delta.plan.definition import ResourceRef
from kaspr_delta.runtime.dead_letters import DeadLetters
from kaspr_delta.runtime.facts import LocalFacts
from kaspr_delta.runtime.kubectl import age
from kaspr_delta.runtime.registry import Registry
from kaspr_delta.runtime.standing import Standing, standings
from kaspr_delta.storage.delta_rs import DeltaRs
from kaspr_delta.web.answer import Answer
from kaspr_delta.web.cells import short_text
from kaspr_delta.web.flows import brief, flows
from kaspr_delta.web.letters_pages import LettersPages
from kaspr_delta.web.picture import HEIGHT, WIDTH, picture
from kaspr_delta.web.resource_page import ResourcePage
from kaspr_delta.web.visitor import Visitor

RETRY = "/ui/dead-letters/retry"
"""Where the form that retries dead letters is sent."""

Written = tuple[str, dict[str, Any]]
"""The name of a template, and what it is given."""


@dataclass(frozen=True)
class Pages:
    """The pages of an application on this machine's disk, below ``/ui``."""

    delta: DeltaRs
    registry: Registry
    _letters: LettersPages = field(init=False, repr=False)
    _templates: Environment = field(init=False, repr=False)
    _policy: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        loader = PackageLoader("kaspr_delta.web")
        templates = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        templates.filters |= {"age": age, "short": short_text, "brief": brief}
        script, _, _ = loader.get_source(templates, "slider.js")
        templates.globals["slider"] = script
        # This script and no other; nobody may show these pages inside their own.
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = (
            f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}';"
            " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )
        object.__setattr__(self, "_templates", templates)
        object.__setattr__(self, "_policy", policy)
        object.__setattr__(self, "_letters", LettersPages(self.delta))

    def page(self, plan: Plan, path: str, visitor: Visitor) -> Answer | None:
        """The page at a path below ``/ui``; None where there is none."""
        found: Written | None = None
        match [part for part in path.removeprefix("/ui").split("/") if part]:
            case []:
                found = "overview.html", self._overview(plan)
            case ["dead-letters"]:
                found = "dead_letters.html", self._letters.all(plan, visitor)
            case ["dead-letters", "retry"]:
                asked = self._letters.asked(plan, visitor)
                if asked is None:
                    return self._message(plan, visitor, 404, "There is nothing to retry: perhaps it was done already.")
                found = "retry.html", asked
            case [kind, name]:
                one = next((one for one in self._standings(plan) if one.ref == ResourceRef(kind, name)), None)
                if one is not None:
                    found = "resource.html", ResourcePage(self.delta, self.registry, plan).of(one, visitor)
        return None if found is None else self._answer(plan, visitor, found)

    def retry(self, plan: Plan, visitor: Visitor, form: Mapping[str, str]) -> tuple[Answer, dict[str, int]]:
        """The answer to the form that retries dead letters, and how many records were put on which topic."""
        try:
            target, sent = self._letters.retry(plan, visitor, form)
        except PermissionError as error:
            return self._message(plan, visitor, 403, str(error)), {}
        return Answer(303, (("location", f"{visitor.root}/{target}"),), b""), sent

    def _message(self, plan: Plan, visitor: Visitor, status: int, text: str) -> Answer:
        return self._answer(plan, visitor, ("message.html", {"title": "not done", "text": text}), status)

    def _answer(self, plan: Plan, visitor: Visitor, written: Written, status: int = 200) -> Answer:
        template, values = written
        known = {"app": plan.application, "up": f"{visitor.root}/", "user": visitor.user}
        text = self._templates.get_template(template).render(**known, **values)
        headers = [
            ("content-security-policy", self._policy),
            ("cache-control", "no-store"),
            ("referrer-policy", "same-origin"),
        ]
        return Answer.of(status, headers, text, "text/html")

    def _overview(self, plan: Plan) -> dict[str, Any]:
        facts = LocalFacts(self.delta, plan)
        everything = {str(one.ref): one for one in standings(self.registry.documents(), plan, facts)}
        letters: dict[str, int] = {}
        for (resource, _), count in DeadLetters(self.delta, plan).counts().items():
            letters[resource] = letters.get(resource, 0) + count
        drawn = picture(plan)
        flowing = flows(self.delta, plan, facts, (line.edge for line in drawn.lines))
        return {
            "title": "",
            "picture": drawn,
            "box": (WIDTH, HEIGHT),
            "rows": {box.label: self._rows_of(box.label, plan, everything) for box in drawn.boxes},
            "letters": letters,
            "flows": flowing,
            "resources": [one for one in everything.values() if one.ref.kind != "app"],
        }

    def _standings(self, plan: Plan) -> Iterator[Standing]:
        return standings(self.registry.documents(), plan, LocalFacts(self.delta, plan))

    def _rows_of(self, label: str, plan: Plan, everything: dict[str, Standing]) -> int | None:
        ref = ResourceRef.of(label)
        topic = plan.topic(ref.name) if ref.kind == "topic" else None
        if topic is not None:
            return self.delta.count(topic.delta_name)
        return everything[label].rows if label in everything else None

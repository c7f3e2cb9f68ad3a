"""HTML pages: the topology, a page for each resource, dead letters. Rendered on the server, wherever tables are."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from kaspr_delta.control.kubectl import age
from kaspr_delta.control.registry import Document, Registry
from kaspr_delta.control.resource_status import kept_in, resource_statuses
from kaspr_delta.control.source_tables import as_found
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.definition.waiting import what_for
from kaspr_delta.spec.kinds import short_kind
from kaspr_delta.storage.native.readable import read_errors, reason_of
from kaspr_delta.web.access import Seals, Visitor
from kaspr_delta.web.answer import Answer
from kaspr_delta.web.flows import brief, flows
from kaspr_delta.web.letters_pages import all_letters, question, retry, short_text
from kaspr_delta.web.picture import HEIGHT, WIDTH, picture
from kaspr_delta.web.resource_page import resource_page, topic_page
from kaspr_delta.web.store import WebStore

RETRY = "/ui/dead-letters/retry"
"""The path to which the form that retries dead letters is sent."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pages:
    """The pages of an application, below ``/ui``.

    Given ``documents`` replace the applied ones, which then give only the age and the generation of each.
    """

    store: WebStore
    documents: list[Document] | None = None
    _seals: Seals = field(default_factory=Seals, init=False, repr=False)
    _templates: Environment = field(init=False, repr=False)
    _policy: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        loader = PackageLoader("kaspr_delta.web")
        templates = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        templates.filters |= {"age": age, "short": short_text, "brief": brief, "what_for": what_for}
        script, _, _ = loader.get_source(templates, "slider.js")
        templates.globals["slider"] = script
        # Only this script may run, and no other site may frame these pages.
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = (
            f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}';"
            " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )
        object.__setattr__(self, "_templates", templates)
        object.__setattr__(self, "_policy", policy)

    def page(self, plan: Plan, path: str, visitor: Visitor) -> Answer:
        """The page at a path below ``/ui``."""
        try:
            return self._page(plan, [part for part in path.removeprefix("/ui").split("/") if part], visitor)
        except read_errors() as error:
            _log.warning("%s cannot be shown", path, exc_info=True)
            return self._message(plan, visitor, 503, reason_of(error), "cannot be shown")

    def _page(self, plan: Plan, parts: list[str], visitor: Visitor) -> Answer:
        store = self.store.seen_by(visitor)
        plan = as_found(store.system, plan)
        match parts:
            case []:
                template, values = "overview.html", self._overview(store, plan)
            case ["dead-letters"]:
                template, values = "dead_letters.html", all_letters(store.letters(plan), visitor)
            case ["dead-letters", "retry"]:
                asked = question(store.letters(plan), visitor, self._seals)
                if asked is None:
                    return self._message(plan, visitor, 404, "There is nothing to retry: perhaps it was done already.")
                template, values = "retry.html", asked
            case ["topic", name] if (topic := plan.topic(name)) is not None:
                template, values = "topic.html", topic_page(store, plan, topic)
            case [kind, name]:
                ref, documents = ResourceRef(kind, name), self._documents(store)
                if not any(ResourceRef(short_kind(one.kind), one.name) == ref for one in documents):
                    return self.problem(plan, visitor, 404, "There is no such page.")
                template, values = "resource.html", resource_page(store, plan, documents, ref, visitor)
            case _:
                return self.problem(plan, visitor, 404, "There is no such page.")
        return self._answer(plan, visitor, template, values)

    def problem(self, plan: Plan, visitor: Visitor, status: int, text: str) -> Answer:
        """A page with the menu that says why a request cannot be answered."""
        return self._message(plan, visitor, status, text, HTTPStatus(status).phrase)

    def retry(self, plan: Plan, visitor: Visitor, form: Mapping[str, str]) -> tuple[Answer, dict[str, int]]:
        """The answer to the form that retries dead letters, and how many records were put on which topic."""
        try:
            target, sent = retry(self.store.seen_by(visitor).letters(plan), visitor, self._seals, form)
        except PermissionError as error:
            return self._message(plan, visitor, 403, str(error)), {}
        return Answer(303, (("location", f"{visitor.root}/{target}"),), b""), sent

    def _message(self, plan: Plan, visitor: Visitor, status: int, text: str, title: str = "not done") -> Answer:
        return self._answer(plan, visitor, "message.html", {"title": title, "text": text}, status)

    def _answer(
        self, plan: Plan, visitor: Visitor, template: str, values: Mapping[str, Any], status: int = 200
    ) -> Answer:
        known = {"app": plan.application, "up": f"{visitor.root}/", "user": visitor.user}
        text = self._templates.get_template(template).render(**known, **values)
        headers = [
            ("content-security-policy", self._policy),
            ("cache-control", "no-store"),
            ("referrer-policy", "same-origin"),
        ]
        return Answer.of(status, headers, text, "text/html")

    def _overview(self, store: WebStore, plan: Plan) -> dict[str, Any]:
        drawn = picture(plan)
        with ThreadPoolExecutor() as at_once:
            documents = at_once.submit(self._documents, store)
            figures = store.figures(plan)
        everything = {str(one.ref): one for one in resource_statuses(documents.result(), plan, figures)}
        labels = {*everything, *(box.label for box in drawn.boxes)}
        return {
            "title": "",
            "picture": drawn,
            "box": (WIDTH, HEIGHT),
            "rows": {box.label: figures.rows(kept_in(plan, box.ref)) for box in drawn.boxes},
            "letters": {label: figures.letters_of(label) for label in labels},
            "flows": flows(plan, figures, (line.edge for line in drawn.lines)),
            "resources": [one for one in everything.values() if one.ref.kind != "app"],
        }

    def _documents(self, store: WebStore) -> list[Document]:
        applied = Registry(store.system).documents()
        if self.documents is None:
            return applied
        known = {one.id: one for one in applied}
        return [one.after(known.get(one.id)) for one in self.documents]

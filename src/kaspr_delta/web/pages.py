"""HTML pages: the topology, a page for each resource, dead letters. Rendered on the server, wherever tables are."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from kaspr_delta.control.documents import Document
from kaspr_delta.control.registry import Registry
from kaspr_delta.control.source_tables import as_found
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef, WebViewPlan
from kaspr_delta.spec.kinds import short_kind
from kaspr_delta.storage.native.readable import read_errors, reason_of
from kaspr_delta.web.access import Seals, Visitor
from kaspr_delta.web.activity import activity_page
from kaspr_delta.web.answer import Answer
from kaspr_delta.web.letters_pages import all_letters, question, retry
from kaspr_delta.web.overview import overview_page
from kaspr_delta.web.parts.download import download
from kaspr_delta.web.parts.listing import Asked, Listing
from kaspr_delta.web.parts.runs import lag_chart
from kaspr_delta.web.parts.view import address, view_values
from kaspr_delta.web.rendered import rendered
from kaspr_delta.web.resource_page import resource_page
from kaspr_delta.web.search import search_page
from kaspr_delta.web.store import WebStore
from kaspr_delta.web.topic_page import topic_page
from kaspr_delta.web.traffic import LagHistory, Traffic

RETRY = "/ui/dead-letters/retry"
"""The path to which the form that retries dead letters is sent."""

# Pages whose form or message would be gone after a reload.
_NOT_LIVE = ("retry.html", "message.html")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pages:
    """The pages of an application, below ``/ui``.

    Given ``documents`` replace the applied ones, which then give only the age and the generation of each.
    ``traffic`` and ``lags``: the answers of web views, and the lags of resources, since the server started.
    ``guarded``: each request of a web view needs a token.
    """

    store: WebStore
    documents: list[Document] | None = None
    traffic: Traffic = field(default_factory=Traffic)
    lags: LagHistory = field(default_factory=LagHistory)
    guarded: bool = False
    _seals: Seals = field(default_factory=Seals, init=False, repr=False)

    def page(self, plan: Plan, path: str, visitor: Visitor) -> Answer:
        """The page at a path below ``/ui``."""
        try:
            return self._page(plan, [part for part in path.removeprefix("/ui").split("/") if part], visitor)
        except read_errors() as error:
            _log.warning("%s cannot be shown", path, exc_info=True)
            return self._message(plan, visitor, 503, reason_of(error), "cannot be shown")

    def _page(self, plan: Plan, parts: list[str], visitor: Visitor) -> Answer:
        store, asked = self.store.seen_by(visitor), Asked(visitor.query)
        plan = as_found(store.system, plan)
        match parts:
            case ["dead-letters", "retry"]:
                retrying = question(store.letters(plan), visitor, self._seals)
                if retrying is None:
                    return self._message(plan, visitor, 404, "There is nothing to retry: perhaps it was done already.")
                return self._answer(plan, visitor, "retry.html", retrying)
            case ["webview", name, "try"] if (view := _view(plan, name)) is not None:
                return self._tried(plan, view, visitor)
            case ["dead-letters"]:
                found = "dead_letters.html", all_letters(store.letters(plan), visitor)
            case []:
                found = "overview.html", overview_page(store, plan, self._documents, asked)
            case ["activity"]:
                found = "activity.html", activity_page(store)
            case ["search"]:
                found = "search.html", search_page(store, plan, self._documents(store), asked)
            case _:
                of_resource = self._of_resource(store, plan, parts, asked, visitor)
                if of_resource is None:
                    return self.problem(plan, visitor, 404, "There is no such page.")
                of_resource[1]["charts"] += lag_chart(self.lags.of(ResourceRef(*parts)))
                found = of_resource
        template, values = found
        if asked.format is not None and (rows := _rows_in(values)) is not None:
            return download(rows.all, asked.format, str(values["title"]))
        return self._answer(plan, visitor, template, values)

    def _tried(self, plan: Plan, view: WebViewPlan, visitor: Visitor) -> Answer:
        """The way to a view's own address, with the parameters that a form has sent."""
        target = address(view, visitor.query)
        if target is None:
            return self.problem(plan, visitor, 400, "Each parameter of the path needs a value.")
        return Answer(303, (("location", f"{visitor.root}{target}"),), b"")

    def _of_resource(
        self, store: WebStore, plan: Plan, parts: list[str], asked: Asked, visitor: Visitor
    ) -> tuple[str, dict[str, Any]] | None:
        """The template of a topic or resource, and its values; None if there is none."""
        match parts:
            case ["topic", name] if (topic := plan.topic(name)) is not None:
                return "topic.html", topic_page(store, plan, topic, asked)
            case [kind, name]:
                ref, documents = ResourceRef(kind, name), self._documents(store)
                if any(ResourceRef(short_kind(one.kind), one.name) == ref for one in documents):
                    values = resource_page(store, plan, documents, ref, asked)
                    if kind == "webview" and (view := _view(plan, name)) is not None:
                        answered = self.traffic.of(name)
                        values["view"] = view_values(view, answered, visitor.root, guarded=self.guarded)
                    return "resource.html", values
        return None

    def problem(self, plan: Plan, visitor: Visitor, status: int, text: str) -> Answer:
        """A page with the menu that says why a request cannot be answered."""
        return self._message(plan, visitor, status, text, HTTPStatus(status).phrase)

    def bare(self, status: int, text: str) -> Answer:
        """The same without the menu and the name of the application."""
        return rendered("bare.html", {"title": HTTPStatus(status).phrase, "text": text}, status)

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
        known = {
            "app": plan.application,
            "up": f"{visitor.root}/",
            "user": visitor.user,
            "live": False,
            "live_link": "",
        }
        if status == HTTPStatus.OK and template not in _NOT_LIVE:
            live = bool(visitor.query.get("live"))
            known |= {"live": live, "live_link": Asked(visitor.query).link(live="" if live else 1)}
        return rendered(template, {**known, **values}, status)

    def _documents(self, store: WebStore) -> list[Document]:
        applied = Registry(store.system).documents()
        if self.documents is None:
            return applied
        known = {one.id: one for one in applied}
        return [one.after(known.get(one.id)) for one in self.documents]


def _rows_in(values: Mapping[str, Any]) -> Listing | None:
    """The rows of a page that can be downloaded."""
    return next((one for name in ("listing", "output") if isinstance(one := values.get(name), Listing)), None)


def _view(plan: Plan, name: str) -> WebViewPlan | None:
    return next((view for view in plan.web_views if view.name == name), None)

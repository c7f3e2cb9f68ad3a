"""A served application: it follows the applied manifests, and routes requests to the views that they declare."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kaspr_delta.control.dead_letters import letters_in
from kaspr_delta.control.documents import Document, accepted_plans, manifests
from kaspr_delta.control.registry import Registry
from kaspr_delta.control.source_tables import as_found, known_by_name
from kaspr_delta.control.totals import Totals
from kaspr_delta.engine.streams.event import App
from kaspr_delta.errors import ManifestError, NotFoundError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.paths import Path
from kaspr_delta.plan.definition.resources import ResourceRef, TablePlan
from kaspr_delta.plan.definition.waiting import in_words, without_waiting
from kaspr_delta.runtime.report import Status
from kaspr_delta.spec.diagnostics import sorted_findings
from kaspr_delta.spec.webview import KasprWebView
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.web.metrics import Metrics
from kaspr_delta.web.outbox import Outbox
from kaspr_delta.web.store import WebStore
from kaspr_delta.web.traffic import LagHistory, Traffic
from kaspr_delta.web.view import View

_log = logging.getLogger(__name__)

# Seconds between two looks at the lags of all resources: with 240 of them kept, pages show the last hour.
_BETWEEN_LAGS = 15.0


@dataclass(frozen=True)
class Route:
    """A path, and for each method the view that answers, or why it waits."""

    path: Path
    methods: Mapping[str, View | str]


@dataclass(frozen=True)
class Site:
    """The plan and the routes until the manifests change again."""

    version: int | None
    plan: Plan
    routes: tuple[Route, ...]
    # By foreign table that cannot be read: why.
    missing: Mapping[str, str]

    def route(self, path: str) -> tuple[Route, dict[str, str]] | None:
        """The route of a request's path, and the parameters in it; None if there is none."""
        for route in self.routes:
            parameters = route.path.match(path)
            if parameters is not None:
                return route, parameters
        return None


@dataclass
class Served:
    """An application as it is applied by now, or as fixed by ``documents``. Close it in the end."""

    store: WebStore
    app: str | None
    documents: list[Document] | None = None
    site: Site = field(init=False)
    metrics: Metrics = field(init=False)
    traffic: Traffic = field(default_factory=Traffic, init=False)
    lags: LagHistory = field(default_factory=LagHistory, init=False)
    _registry: Registry = field(init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _threads: list[threading.Thread] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._registry = Registry(self.store.system, self.app)
        self.metrics = Metrics(lambda: self.site.plan, self.status, self.key_counts)
        self.site = self._load()

    def start(self) -> None:
        """From now on, note lags, and take up changed manifests and foreign tables that could not be read before."""
        follows = self.documents is None or self.site.missing
        works = {"lags": self._note_lags, **({"applied manifests": self._follow} if follows else {})}
        self._threads = [threading.Thread(target=work, name=name, daemon=True) for name, work in works.items()]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop following, and close the store."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=5)
        self.store.close()

    def status(self) -> Status:
        """The status of the resources, without numbers of batches if these cannot be read."""
        done = readable("the progress of resources", self.store.done)
        letters = readable("the dead letters", partial(letters_in, self.store.system.query))
        plan = without_waiting(as_found(self.store.system, self.site.plan), self.store.rebuilds(self.site.plan))
        return Status.of(plan, Totals() if isinstance(done, str) else done, {} if isinstance(letters, str) else letters)

    def key_counts(self) -> dict[str, int]:
        """How many rows each table has. Foreign tables are left out, and tables that cannot be read."""
        tables = {one.delta_name: one.name for one in self.site.plan.tables if not one.is_foreign}
        counts = self.store.tables.counts(tables)
        return {name: count for table, name in tables.items() if isinstance(count := counts.get(table), int)}

    def _follow(self) -> None:
        while not self._stop.wait(self.store.look):
            try:
                if self._has_changed():
                    self.site = self._load()
                    _log.info("the manifests have changed: %s views", len(self.site.plan.web_views))
            except Exception:  # noqa: BLE001  the old site is better than none
                _log.warning("the applied manifests cannot be taken up", exc_info=True)

    def _note_lags(self) -> None:
        while not self._stop.is_set():
            found = readable("the lags of resources", partial(self.store.lags, self.site.plan))
            self.lags.note({} if isinstance(found, str) else found)
            self._stop.wait(_BETWEEN_LAGS)

    def _has_changed(self) -> bool:
        if self.site.missing and self._tables(self.site.plan)[1] != self.site.missing:
            return True
        return self.documents is None and self._registry.version != self.site.version

    def _tables(self, plan: Plan) -> tuple[dict[str, TablePlan], dict[str, str]]:
        """The tables that views read, with their current columns, and for each that cannot be read the reason."""
        names = sorted({table for view in plan.web_views for table in view.tables})
        found = known_by_name(plan, names, self.store.columns)
        tables = {name: one for name, one in found.items() if not isinstance(one, str)}
        return tables, {name: one for name, one in found.items() if isinstance(one, str)}

    def _load(self) -> Site:
        version = None if self.documents is not None else self._registry.version
        documents = self._registry.documents() if self.documents is None else self.documents
        plan = self._registry.plan(documents)
        if plan is None:
            if refused := accepted_plans(documents)[1]:
                raise ManifestError(sorted_findings(dict.fromkeys(refused.values())))
            applications = {one.metadata.application or "" for one in manifests(documents).values()}
            raise NotFoundError.among("application", self.app or "", applications)
        app = App.of(plan.application, plan.application_id)
        outbox = Outbox(self.store, plan, self.metrics.sent)
        tables, missing = self._tables(plan)
        for table in tables.values():
            self.store.reader(table)  # its copy starts before the first request
        answering: dict[str, dict[str, View | str]] = {}
        for view in plan.web_views:
            waits = "; ".join(
                f"{plan.label_of(name)} waits: {missing[name]}" for name in view.tables if name in missing
            )
            answering.setdefault(view.path, {})[view.method] = (
                f"{view.ref} {in_words(waits)}"
                if waits
                else View(
                    view,
                    app,
                    {name: tables[name] for name in view.tables},
                    outbox.topics,
                    self.store.reader,
                    outbox.send,
                    self.metrics.used,
                    plan.event_timeout / 1_000,
                )
            )
        for path, method, reason in _waiting(plan, manifests(documents)):
            answering.setdefault(path, {})[method] = reason
        routes = [Route(Path.of(path), methods) for path, methods in answering.items()]
        return Site(version, plan, tuple(sorted(routes, key=lambda route: route.path.precedence)), missing)


def _waiting(plan: Plan, declared: Mapping[tuple[str, str], Any]) -> Iterator[tuple[str, str, str]]:
    """Path, method and reason of each view that waits."""
    reasons = dict(plan.waiting)
    for (_, name), manifest in declared.items():
        reason = reasons.get(ResourceRef("webview", name))
        if reason is not None and isinstance(manifest, KasprWebView):
            yield manifest.spec.request.path, manifest.spec.request.method, f"webview/{name} {in_words(reason)}"

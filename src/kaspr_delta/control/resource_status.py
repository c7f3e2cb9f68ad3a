"""The status of applied resources: their references, whether they can run, and their counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from kaspr_delta.control.documents import Document, accepted_plans, manifests, refusal, spec_hash
from kaspr_delta.control.events import Event, Reference, references
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.definition.waiting import without_waiting
from kaspr_delta.spec.kinds import short_kind
from kaspr_delta.spec.manifest import Manifest
from kaspr_delta.spec.resource import API_VERSION
from kaspr_delta.version import VERSION

if TYPE_CHECKING:
    from kaspr_delta.control.figures import Figures


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """One resource. ``waits`` is the reason why it cannot run, ``keeps`` the Delta table that holds its rows.

    ``manifest`` is None if this version refuses it.
    ``rows`` and ``lag`` are text where they cannot be read: the reason. ``reason`` is a word for ``waits``.
    ``linked``, for an application only, are its resources by kind, each with its hash.
    """

    document: Document
    manifest: Manifest | None
    references: tuple[Reference, ...]
    waits: str = ""
    keeps: str | None = None
    rows: int | str | None = None
    lag: int | str | None = None
    done: Mapping[str, Any] = field(default_factory=dict)
    reason: Literal["NotReady", "RebuildRequired"] = "NotReady"
    linked: Mapping[str, list[dict[str, str]]] = field(default_factory=dict)

    @property
    def ref(self) -> ResourceRef:
        """The resource as ``kind/name``."""
        return self.document.ref

    @property
    def application(self) -> str:
        """The name of its application."""
        return self.document.application or self.document.name

    @property
    def ready(self) -> bool:
        """Whether it can run."""
        return not self.waits

    @property
    def status(self) -> dict[str, Any]:
        """The status with Kaspr's fields, and the counts of this package."""
        named: dict[str, Any] = {}
        for one in self.references:
            shown = {"name": one.name, "status": one.status}
            if one.role == "table":  # of a pipeline, which may have several
                named.setdefault("tables", []).append(shown)
            else:
                named[one.role] = shown
        condition = {"type": "Ready", "status": "True", "reason": "Healthy"}
        if not self.ready:
            condition |= {"status": "False", "reason": self.reason, "message": self.waits}
        counted = {"rows": self.rows, "lag": self.lag}
        counted |= {camel: self.done[name] for name, camel in _CAMEL.items() if name in self.done}
        status: dict[str, Any] = {
            **named,
            "configMap": self._config_map,
            **({} if self.manifest is None else {"hash": spec_hash(self.manifest)}),
            "observedGeneration": self.document.generation,
            "conditions": [condition],
            **{name: value for name, value in counted.items() if value is not None and not isinstance(value, str)},
        }
        if self.keeps is not None:
            status["deltaName"] = self.keeps
        if self.document.kind == "KasprApp":
            del status["configMap"]
            status |= {"kasprVersion": VERSION, "linkedResources": self.linked}
        return status

    @property
    def resource(self) -> dict[str, Any]:
        """The manifest as written, with the metadata that Kubernetes would add, and the status."""
        written = {"apiVersion": API_VERSION, "kind": self.document.kind, **self.document.data}
        given = self.document.metadata or {"name": self.document.name}
        metadata = {
            **given,
            "namespace": given.get("namespace") or "default",
            "creationTimestamp": _moment(self.document.created),
            "generation": self.document.generation,
        }
        return {**written, "metadata": metadata, "status": _plain(self.status)}

    @property
    def _config_map(self) -> str:
        """The name: for joins as Kaspr's guide shows it, for other kinds by Kaspr's rule."""
        name = self.document.name
        return name if self.ref.kind == "join" else f"{name}-{self.ref.kind}"


def newly_waiting(before: Plan | None, after: Plan | None) -> list[tuple[ResourceRef, str]]:
    """The resources that wait after a change of the documents and did not wait before it, with their reasons."""
    waited = {} if before is None else dict(before.waiting)
    return [] if after is None else [(ref, reason) for ref, reason in after.waiting if ref not in waited]


def resource_statuses(
    documents: list[Document], plan: Plan | None, figures: Figures, only: ResourceRef | None = None
) -> Iterator[ResourceStatus]:
    """The status of each resource, or only of one, in the order in which they were applied."""
    everything = manifests(documents)
    declared, rebuilds = plan, figures.rebuilds
    plan = None if plan is None else without_waiting(plan, rebuilds)
    waiting = {} if plan is None else dict(plan.waiting)
    if plan is None:
        _, refused = accepted_plans(documents)
        waiting = {one.ref: refusal(finding) for one, finding in refused.items()}
    for document in documents:
        manifest, ref = everything.get(document.id), document.ref
        if only not in {None, ref}:
            continue
        waits = waiting.get(ref, "")
        if ref.kind == "app" and waiting and not waits:
            waits = f"{', '.join(map(str, waiting))} wait"
        keeps = None if plan is None else kept_in(declared or plan, ref)
        done = figures.done_of(ref)
        read = figures.done if isinstance(figures.done, str) else done.get("rows_in", 0)
        runs = plan is not None and ref in plan.runs
        rows = figures.rows(keeps) if keeps is not None else read if runs else None
        yield ResourceStatus(
            document,
            manifest,
            () if manifest is None else tuple(references(manifest, everything)),
            waits,
            keeps,
            rows,
            figures.lag(ref) if runs and not waits and ref.kind != "task" else None,
            done,
            "RebuildRequired" if ref in rebuilds else "NotReady",
            _linked(everything) if ref.kind == "app" else {},
        )


def events_of(events: list[Event], document: Document) -> list[Event]:
    """The events of a resource since it was created."""
    return [event for event in events if (event.kind, event.name) == document.id and event.at >= document.created]


def _linked(everything: Mapping[tuple[str, str], Manifest]) -> dict[str, list[dict[str, str]]]:
    linked: dict[str, list[dict[str, str]]] = {}
    for (kind, name), manifest in everything.items():
        if kind != "KasprApp":
            linked.setdefault(f"{short_kind(kind)}s", []).append({"name": name, "hash": spec_hash(manifest)})
    return linked


def kept_in(plan: Plan, ref: ResourceRef) -> str | None:
    """The Delta table that holds the rows of a resource, or the records of a topic; None if it keeps none."""
    if ref.kind == "topic" and (topic := plan.topic(ref.name)):
        return topic.delta_name
    if ref.kind == "table" and (table := plan.table(ref.name)):
        return table.delta_name
    if ref.kind == "join" and (join := plan.join(ref.name)):
        return join.result if isinstance(join, TableTableJoinPlan) else join.log
    return None


_CAMEL = {
    "rows_in": "rowsIn",
    "rows_out": "rowsOut",
    "dead_letters": "deadLetters",
    "failures": "failures",
    "last_batch": "lastBatch",
}


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _plain(value: Any) -> Any:
    """The value with moments as text, in the format of Kubernetes."""
    match value:
        case Mapping():
            return {name: _plain(item) for name, item in value.items()}
        case datetime():
            return _moment(value)
    return value

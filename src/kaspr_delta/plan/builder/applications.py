"""Group manifests by application: a KasprApp, and the resources with its label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kaspr_delta.plan.builder.report import Report
from kaspr_delta.plan.names import default_channel
from kaspr_delta.spec.agent import AgentSpec, KasprAgent
from kaspr_delta.spec.app import AppSpec, KasprApp
from kaspr_delta.spec.diagnostics import Location
from kaspr_delta.spec.join import JoinSpec, KasprJoin
from kaspr_delta.spec.loader import LoadedManifest
from kaspr_delta.spec.metadata import APP_LABEL
from kaspr_delta.spec.near import nearest
from kaspr_delta.spec.resource import ResourceSpec
from kaspr_delta.spec.table import KasprTable, TableSpec
from kaspr_delta.spec.task import KasprTask, TaskSpec
from kaspr_delta.spec.webview import KasprWebView, WebViewSpec

ABSENT_APP = "there is no KasprApp"
"""The beginning of the warning that an application has no KasprApp and therefore default settings."""

S_co = TypeVar("S_co", bound=ResourceSpec, covariant=True)


@dataclass(frozen=True, slots=True)
class Declared(Generic[S_co]):
    """A declared resource: its name, its spec and its manifest."""

    name: str
    spec: S_co
    source: LoadedManifest

    @property
    def location(self) -> Location:
        """Where the manifest begins."""
        return self.source.location


@dataclass(slots=True)
class DeclaredApplication:
    """The resources of one application by name. ``app`` is None if no KasprApp was loaded."""

    name: str
    app: Declared[AppSpec] | None = None
    tables: dict[str, Declared[TableSpec]] = field(default_factory=dict)
    joins: dict[str, Declared[JoinSpec]] = field(default_factory=dict)
    agents: dict[str, Declared[AgentSpec]] = field(default_factory=dict)
    web_views: dict[str, Declared[WebViewSpec]] = field(default_factory=dict)
    tasks: dict[str, Declared[TaskSpec]] = field(default_factory=dict)

    @property
    def location(self) -> Location:
        """The location of its KasprApp or, without one, of its first resource."""
        return self.app.location if self.app is not None else min(part.location for part in self.resources())

    def resources(self) -> Iterable[Declared[ResourceSpec]]:
        """All resources, the KasprApp first."""
        if self.app is not None:
            yield self.app
        kinds: tuple[Mapping[str, Declared[ResourceSpec]], ...] = (
            self.tables,
            self.joins,
            self.agents,
            self.web_views,
            self.tasks,
        )
        for kind in kinds:
            yield from kind.values()


def channel_of(join: Declared[JoinSpec]) -> str:
    """The channel a join writes: its ``outputChannel``, or the one named after the join."""
    return join.spec.output_channel or default_channel(join.name)


def applications(
    manifests: Iterable[LoadedManifest], broken: Iterable[tuple[str, str]], report: Report
) -> tuple[DeclaredApplication, ...]:
    """The applications, sorted by name: those with a KasprApp, and those that only labels name."""
    sources = tuple(manifests)
    declared = [source.manifest.metadata.name for source in sources if isinstance(source.manifest, KasprApp)]
    found: dict[str, DeclaredApplication] = {}
    for source in sources:
        name = _application_of(source, declared, report)
        if name is not None:
            _add(source, found.setdefault(name, DeclaredApplication(name)), report)
    existing = {*declared, *(name for kind, name in broken if kind == "KasprApp")}
    for application in found.values():
        if application.name not in existing:
            _warn_of_absent_app(application, existing, report)
    return tuple(found[name] for name in sorted(found))


def _application_of(source: LoadedManifest, declared: list[str], report: Report) -> str | None:
    manifest = source.manifest
    if isinstance(manifest, KasprApp):
        return manifest.metadata.name
    if manifest.metadata.application is None:
        location = source.locate("metadata", "labels", APP_LABEL)
        example = declared[0] if declared else "my-app"
        message = (
            f"{manifest.kind} '{manifest.metadata.name}' has no label '{APP_LABEL}', so it belongs to no application"
        )
        hint = f"add `labels: {{{APP_LABEL}: {example}}}` under 'metadata'"
        if isinstance(manifest, KasprAgent):
            report.warning(location, f"{message} and does not run", hint)
        else:
            report.error(location, message, hint)
    return manifest.metadata.application


def _add(source: LoadedManifest, application: DeclaredApplication, report: Report) -> None:
    manifest = source.manifest
    name = manifest.metadata.name
    earlier: Declared[ResourceSpec] | None
    match manifest:
        case KasprApp():
            earlier, application.app = application.app, application.app or Declared(name, manifest.spec, source)
        case KasprTable():
            earlier = application.tables.get(name)
            application.tables.setdefault(name, Declared(name, manifest.spec, source))
        case KasprJoin():
            earlier = application.joins.get(name)
            application.joins.setdefault(name, Declared(name, manifest.spec, source))
        case KasprAgent():
            earlier = application.agents.get(name)
            application.agents.setdefault(name, Declared(name, manifest.spec, source))
        case KasprWebView():
            earlier = application.web_views.get(name)
            application.web_views.setdefault(name, Declared(name, manifest.spec, source))
        case KasprTask():
            earlier = application.tasks.get(name)
            application.tasks.setdefault(name, Declared(name, manifest.spec, source))
    if earlier is not None:
        message = f"there is another {manifest.kind} '{name}' at {earlier.location}"
        report.error(source.locate_value("metadata", "name"), message, "give one of them another name or remove it")


def _warn_of_absent_app(application: DeclaredApplication, existing: Iterable[str], report: Report) -> None:
    first = min(application.resources(), key=lambda resource: resource.location)
    near = nearest(application.name, existing)
    hint = f"did you mean '{near}'?" if near else f"add a KasprApp named '{application.name}' to change them"
    message = f"{ABSENT_APP} '{application.name}'; its resources run with default settings"
    report.warning(first.source.locate_value("metadata", "labels", APP_LABEL), message, hint)

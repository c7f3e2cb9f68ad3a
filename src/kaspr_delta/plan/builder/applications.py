"""Group manifests by application: a KasprApp, and the resources with its label."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition.resources import ResourceRef, SerializerName, Serializers
from kaspr_delta.plan.names import default_channel
from kaspr_delta.spec.agent import AgentSpec, KasprAgent
from kaspr_delta.spec.app import AppConfig, AppSpec, KasprApp, OnGap
from kaspr_delta.spec.diagnostics import Location, Report
from kaspr_delta.spec.durations import milliseconds
from kaspr_delta.spec.join import JoinSpec
from kaspr_delta.spec.kinds import short_kind
from kaspr_delta.spec.loader import LoadedManifest
from kaspr_delta.spec.near import suggestion
from kaspr_delta.spec.resource import APP_LABEL, OnChange, ResourceSpec
from kaspr_delta.spec.table import TableSpec
from kaspr_delta.spec.task import TaskSpec
from kaspr_delta.spec.webview import WebViewSpec

ABSENT_APP = "there is no KasprApp"
"""The beginning of the warning that an application has no KasprApp and therefore default settings."""

S_co = TypeVar("S_co", bound=ResourceSpec, covariant=True)


@dataclass(frozen=True, slots=True)
class Declared(Generic[S_co]):
    """A declared resource: its name, its spec and its manifest."""

    name: str
    spec: S_co
    loaded: LoadedManifest

    @property
    def location(self) -> Location:
        """Where the manifest begins."""
        return self.loaded.location

    @property
    def ref(self) -> ResourceRef:
        """The resource as people write it on the command line."""
        return ResourceRef(short_kind(self.loaded.manifest.kind), self.name)

    @property
    def named_at(self) -> Location:
        """Where the name of the resource stands."""
        return self.loaded.positions.value(("metadata", "name"))

    def at(self, *field: str | int) -> Location:
        """Where the value of a field of the ``spec`` begins, or of its nearest parent's key."""
        return self.loaded.positions.value(("spec", *field))

    def key_at(self, *field: str | int) -> Location:
        """Where the key of a field of the ``spec`` stands, or that of its nearest parent."""
        return self.loaded.positions.key(("spec", *field))

    def path(self, written: str, report: Report, *field: str | int) -> str:
        """A path or URI that a field of the ``spec`` has, from the folder of the manifest if it is relative."""
        located = self.loaded.located(written)
        if located is None:
            hint = "for example /data/clicks, or /Volumes/main/raw/clicks on Databricks"
            message = (
                f"'{written}' is relative to a manifest that lies elsewhere each time: write a whole path, or a URI"
            )
            report.error(self.at(*field), message, hint)
        return located or written

    def snippet(self, *field: str | int) -> Snippet | None:
        """The function in a field of the ``spec``, ready to be called; None if the field is absent."""
        return self.loaded.snippets.get(("spec", *field))


@dataclass(frozen=True, slots=True)
class Defaults:
    """Resolved ``config`` of a KasprApp: by default json keys, json values, 3 partitions and 5 minutes per event.

    ``feed_retention`` is None if it is not set.
    """

    serializers: Serializers
    partitions: int
    event_timeout: int
    feed_retention: int | None
    on_gap: OnGap
    on_change: OnChange

    def with_own(self, key: SerializerName | None, value: SerializerName | None) -> Serializers:
        """The serializers of a topic: its own ones or, by default, those of the application."""
        return Serializers(key or self.serializers.key, value or self.serializers.value)


@dataclass
class DeclaredApplication:
    """The resources of one application by name. ``app`` is None if no KasprApp was loaded."""

    name: str
    app: Declared[AppSpec] | None = None
    tables: dict[str, Declared[TableSpec]] = field(default_factory=dict)
    joins: dict[str, Declared[JoinSpec]] = field(default_factory=dict)
    agents: dict[str, Declared[AgentSpec]] = field(default_factory=dict)
    web_views: dict[str, Declared[WebViewSpec]] = field(default_factory=dict)
    tasks: dict[str, Declared[TaskSpec]] = field(default_factory=dict)

    @cached_property
    def defaults(self) -> Defaults:
        """The settings of its KasprApp for all its resources; without a KasprApp, and for the rest, the defaults."""
        config = self.app.spec.config if self.app else AppConfig()
        return Defaults(
            Serializers(config.key_serializer or "json", config.value_serializer or "json"),
            config.topic_partitions or 3,
            milliseconds(config.event_timeout or "5m"),
            milliseconds(config.feed_retention) if config.feed_retention else None,
            config.on_gap or "fail",
            config.on_change or "refuse",
        )

    @property
    def location(self) -> Location:
        """The location of its KasprApp or, without one, of its first resource."""
        return self.app.location if self.app is not None else min(part.location for part in self.resources())

    def resources(self) -> Iterable[Declared[ResourceSpec]]:
        """All resources, the KasprApp first."""
        if self.app is not None:
            yield self.app
        for declared in self.by_kind.values():
            yield from declared.values()

    @property
    def by_kind(self) -> dict[str, dict[str, Declared[Any]]]:
        """The resources by kind and name, without the KasprApp."""
        return {
            "KasprTable": self.tables,
            "KasprJoin": self.joins,
            "KasprAgent": self.agents,
            "KasprWebView": self.web_views,
            "KasprTask": self.tasks,
        }


def channel_of(join: Declared[JoinSpec]) -> str:
    """The channel a join writes: its ``outputChannel``, or the one named after the join."""
    return join.spec.output_channel or default_channel(join.name)


def applications(
    manifests: Iterable[LoadedManifest], broken: Iterable[tuple[str, str]], report: Report
) -> tuple[DeclaredApplication, ...]:
    """The applications, sorted by name: those with a KasprApp, and those that only labels name."""
    everything = tuple(manifests)
    declared = [loaded.manifest.metadata.name for loaded in everything if isinstance(loaded.manifest, KasprApp)]
    found: dict[str, DeclaredApplication] = {}
    for loaded in everything:
        name = _application_of(loaded, declared, report)
        if name is not None:
            _add(loaded, found.setdefault(name, DeclaredApplication(name)), report)
    existing = {*declared, *(name for kind, name in broken if kind == "KasprApp")}
    for application in found.values():
        if application.name not in existing:
            first = min(application.resources(), key=lambda resource: resource.location)
            hint = suggestion(application.name, existing) or f"add a KasprApp named '{application.name}' to change them"
            message = f"{ABSENT_APP} '{application.name}'; its resources run with default settings"
            report.warning(first.loaded.positions.value(("metadata", "labels", APP_LABEL)), message, hint)
    return tuple(found[name] for name in sorted(found))


def _application_of(loaded: LoadedManifest, declared: list[str], report: Report) -> str | None:
    manifest = loaded.manifest
    if isinstance(manifest, KasprApp):
        return manifest.metadata.name
    if manifest.metadata.application is None:
        location = loaded.positions.key(("metadata", "labels", APP_LABEL))
        message = f"{manifest.kind} '{manifest.metadata.name}' has no label '{APP_LABEL}', so"
        message += " it belongs to no application"
        hint = f"add `labels: {{{APP_LABEL}: {(*declared, 'my-app')[0]}}}` under 'metadata'"
        if isinstance(manifest, KasprAgent):
            report.warning(location, f"{message} and does not run", hint)
        else:
            report.error(location, message, hint)
    return manifest.metadata.application


def _add(loaded: LoadedManifest, application: DeclaredApplication, report: Report) -> None:
    manifest = loaded.manifest
    name = manifest.metadata.name
    declared: Declared[Any] = Declared(name, manifest.spec, loaded)
    if isinstance(manifest, KasprApp):
        first = application.app = application.app or declared
    else:
        first = application.by_kind[manifest.kind].setdefault(name, declared)
    if first is not declared:
        message = f"there is another {manifest.kind} '{name}' at {first.location}"
        report.error(declared.named_at, message, "give one of them another name or remove it")

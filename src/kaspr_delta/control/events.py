"""Kaspr's references between resources, and the events when a referenced resource appears or disappears."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from kaspr_delta.spec.app import KasprApp
from kaspr_delta.spec.join import KasprJoin
from kaspr_delta.spec.manifest import Manifest

NORMAL, WARNING = "Normal", "Warning"
REBUILD_REQUIRED = "RebuildRequired"
"""The reason of a resource that cannot go on from its state, in its condition and in an event."""

Resources = Mapping[tuple[str, str], Manifest]
"""Resources by kind and name."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference of a resource: to its application (``app``), or of a join to its ``leftTable`` or ``rightTable``."""

    role: str
    kind: str
    name: str
    found: bool

    @property
    def status(self) -> str:
        """The text in the status of the resource: TableFound, AppNotFound."""
        return f"{'App' if self.role == 'app' else 'Table'}{self._end}"

    @property
    def reason(self) -> str:
        """The reason of an event about it: LeftTableFound, AppNotFound."""
        return f"{self.role[0].upper()}{self.role[1:]}{self._end}"

    @property
    def _end(self) -> str:
        return "Found" if self.found else "NotFound"


@dataclass(frozen=True, slots=True, order=True)
class Event:
    """Something that happened to a resource. ``type`` is Normal or Warning."""

    at: datetime
    type: str
    reason: str
    kind: str
    name: str
    message: str


def by_name(manifests: Iterable[Manifest]) -> Resources:
    """Resources by kind and name."""
    return {(manifest.kind, manifest.metadata.name): manifest for manifest in manifests}


def references(manifest: Manifest, there: Resources) -> Iterator[Reference]:
    """The references of a resource, each with whether its target exists. The result of a join counts as a table."""
    if isinstance(manifest, KasprApp):
        return
    application = manifest.metadata.application or ""
    yield Reference("app", "KasprApp", application, ("KasprApp", application) in there)
    if isinstance(manifest, KasprJoin):
        for role, name in (("leftTable", manifest.spec.left_table), ("rightTable", manifest.spec.right_table)):
            if name is not None:
                join = there.get(("KasprJoin", name))
                stands_for_one = isinstance(join, KasprJoin) and join.spec.has_result
                yield Reference(role, "KasprTable", name, ("KasprTable", name) in there or stands_for_one)


def events_of_change(before: Resources, after: Resources, at: datetime) -> list[Event]:
    """The events of a change of the applied resources, for the resources that exist afterwards.

    A reference has one event when its resource is new, and another whenever the named resource appears or disappears.
    """
    known = {(id_, reference) for id_, one in before.items() for reference in references(one, before)}
    return [
        _event(one, reference, at)
        for id_, one in after.items()
        for reference in references(one, after)
        if (id_, reference) not in known
    ]


def _event(one: Manifest, reference: Reference, at: datetime) -> Event:
    namespace = one.metadata.namespace or "default"
    owner = f"{one.kind} `{one.metadata.name}`"
    what = f"{reference.kind} `{reference.name}`" if reference.name else "a KasprApp, for it has no label kaspr.io/app"
    there = "was found" if reference.found else "does not exist"
    message = f"{owner} in namespace `{namespace}` refers to {what}, which {there}"
    return Event(at, NORMAL if reference.found else WARNING, reference.reason, one.kind, one.metadata.name, message)

"""What happens to resources when others come and go: Kaspr's references, and its events when they change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from kaspr_delta.spec.app import KasprApp
from kaspr_delta.spec.join import KasprJoin
from kaspr_delta.spec.manifest import Manifest

NORMAL, WARNING = "Normal", "Warning"

Resources = Mapping[tuple[str, str], Manifest]
"""Resources by kind and name."""


@dataclass(frozen=True, slots=True)
class Reference:
    """That a resource names another one: its application (``app``), or a join its ``leftTable`` or ``rightTable``."""

    role: str
    kind: str
    name: str
    found: bool

    @property
    def status(self) -> str:
        """As it stands in the status of the resource: TableFound, AppNotFound."""
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
    """What a resource refers to, and whether it is there. The result of a join may stand where a table may."""
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
    """What a change of the applied resources means for those that are there afterwards.

    A reference is told once when its resource is new, and again whenever what it names comes or goes.
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

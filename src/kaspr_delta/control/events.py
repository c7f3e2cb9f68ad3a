"""Kaspr's references between resources, and the events when a referenced resource appears or disappears."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from kaspr_delta.plan.names import default_channel
from kaspr_delta.spec.agent import AgentSpec
from kaspr_delta.spec.app import KasprApp
from kaspr_delta.spec.join import JoinSpec, KasprJoin
from kaspr_delta.spec.manifest import Manifest
from kaspr_delta.spec.table import TableSpec
from kaspr_delta.spec.task import TaskSpec
from kaspr_delta.spec.webview import WebViewSpec

NORMAL, WARNING = "Normal", "Warning"
_CHANNEL = "Channel"
REBUILD_REQUIRED = "RebuildRequired"
"""The reason of a resource that cannot go on from its state, in its condition and in an event."""
FAILED = "Failed"
"""The reason of the event of a resource that a run stopped, with its error and, below, where that was raised."""
OTHER_DEPLOYMENT = "OtherDeployment"
"""The reason of the event of an application whose run found the manifests of another deployment than its own."""
WAITING, RESUMED = "Waiting", "Resumed"
"""The reasons of events of a resource that waits, and of one that no longer waits."""

COMPARED = "Compared"
"""The reason of the event that a result was compared; the newest one describes its table of differences."""
REBUILT = "Rebuilt"
"""The reason of the event that a run has made a state anew."""

Resources = Mapping[tuple[str, str], Manifest]
"""Resources by kind and name."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference of a resource to its application, to a table, to a join, or to a channel, which a join writes.

    ``role`` is the field that names it: ``app``, ``leftTable``, ``fromJoin``, ``channel``; ``table`` of a pipeline.
    """

    role: str
    kind: str
    name: str
    found: bool

    @property
    def status(self) -> str:
        """The text in the status of the resource: TableFound, AppNotFound."""
        return f"{self.kind.removeprefix('Kaspr')}{self._end}"

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

    @property
    def first_line(self) -> str:
        """The message without the lines of a traceback."""
        return self.message.partition("\n")[0]


def references(manifest: Manifest, there: Resources) -> Iterator[Reference]:
    """The references of a resource, each once, with whether its target exists.

    The result of a join counts as a table.
    """
    if isinstance(manifest, KasprApp):
        return
    named = dict.fromkeys([("app", "KasprApp", manifest.metadata.application or ""), *_named_in(manifest.spec)])
    for role, kind, name in named:
        yield Reference(role, kind, name, _exists(kind, name, there))


def _named_in(spec: TableSpec | JoinSpec | AgentSpec | TaskSpec | WebViewSpec) -> Iterator[tuple[str, str, str]]:
    """Role, kind and name of each resource that a spec names."""
    names: dict[tuple[str, str], str | None] = {}
    if isinstance(spec, TableSpec):
        if (origin := spec.from_) is not None:
            names = {("fromTable", "KasprTable"): origin.table, ("fromJoin", "KasprJoin"): origin.join}
            names["fromChannel", _CHANNEL] = origin.channel
    elif isinstance(spec, JoinSpec):
        names = {("leftTable", "KasprTable"): spec.left_table, ("rightTable", "KasprTable"): spec.right_table}
        for role, stream in (("leftStream", spec.left_stream), ("rightStream", spec.right_stream)):
            names[role, _CHANNEL] = None if stream is None else stream.channel
    else:
        if isinstance(spec, AgentSpec) and spec.input.channel is not None:
            names["channel", _CHANNEL] = spec.input.channel.name
        for _, operation in spec.processors.steps():
            yield from (("table", "KasprTable", table.name) for table in operation.tables)
    yield from ((role, kind, name) for (role, kind), name in names.items() if name is not None)


def _exists(kind: str, name: str, there: Resources) -> bool:
    joins = [one for one in there.values() if isinstance(one, KasprJoin)]
    if kind == _CHANNEL:
        return any((one.spec.output_channel or default_channel(one.metadata.name)) == name for one in joins)
    result = kind == "KasprTable" and any(one.metadata.name == name and one.spec.has_result for one in joins)
    return result or (kind, name) in there


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


def events_of_waiting(
    known: Iterable[Event], waits: Mapping[tuple[str, str], str], at: datetime
) -> tuple[list[Event], dict[tuple[str, str], datetime]]:
    """The new events of resources that wait or no longer wait, and since when each one waits.

    ``known`` are all earlier events, oldest first, and ``waits`` reasons by kind and name.
    """
    known = list(known)
    since = since_in(known)
    newest = {(event.kind, event.name): event for event in known if event.reason == WAITING}
    new = [
        Event(at, WARNING, WAITING, *id_, reason)
        for id_, reason in waits.items()
        if id_ not in since or newest[id_].message != reason
    ]
    new += [Event(at, NORMAL, RESUMED, *id_, "It no longer waits") for id_ in since if id_ not in waits]
    return new, {id_: since.get(id_, at) for id_ in waits}


def since_in(events: Iterable[Event]) -> dict[tuple[str, str], datetime]:
    """Since when resources wait, by kind and name. ``events`` are oldest first."""
    since: dict[tuple[str, str], datetime] = {}
    for event in events:
        if event.reason == WAITING:
            since.setdefault((event.kind, event.name), event.at)
        elif event.reason == RESUMED:
            since.pop((event.kind, event.name), None)
    return since


def _event(one: Manifest, reference: Reference, at: datetime) -> Event:
    namespace = one.metadata.namespace or "default"
    owner = f"{one.kind} `{one.metadata.name}`"
    kind = "the channel" if reference.kind == _CHANNEL else reference.kind
    what = f"{kind} `{reference.name}`" if reference.name else "a KasprApp, for it has no label kaspr.io/app"
    there = "was found" if reference.found else "does not exist"
    message = f"{owner} in namespace `{namespace}` refers to {what}, which {there}"
    return Event(at, NORMAL if reference.found else WARNING, reference.reason, one.kind, one.metadata.name, message)

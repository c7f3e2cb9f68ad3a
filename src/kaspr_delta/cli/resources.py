"""``kaspr-delta apply``, ``get`` and ``describe``: applied resources, in the manner of kubectl."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kaspr_delta.cli.completion import complete_kind, complete_name
from kaspr_delta.cli.progress import console, note
from kaspr_delta.cli.target import Target
from kaspr_delta.cli.topics import NAMES, count_text, topic_lines, topics_in
from kaspr_delta.control.kubectl import age, columns, described, yaml_text
from kaspr_delta.errors import NotFoundError
from kaspr_delta.plan.definition.waiting import what_for
from kaspr_delta.spec.diagnostics import Severity
from kaspr_delta.spec.kinds import KINDS_BY_COMMAND, kind_called, short_kind
from kaspr_delta.spec.limits import LONGEST_FILE
from kaspr_delta.spec.loader import LoadedManifests, load_bytes, load_path

if TYPE_CHECKING:
    from kaspr_delta.control.events import Event
    from kaspr_delta.control.resource_status import ResourceStatus

_EVENTS = {"event", "events", "ev"}


class ResourceOutput(str, Enum):
    """The forms in which resources are shown."""

    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def apply(
    target: Target,
    files: Annotated[
        list[str],
        typer.Option("--filename", "-f", metavar="PATH|-", help="A manifest, a folder, or - for input."),
    ],
    prune: Annotated[  # noqa: FBT002
        bool,
        typer.Option("--prune", help="Delete resources that these files had when last applied."),
    ] = False,
) -> None:
    """Add resources to their applications, or change those that are there. The order does not matter.

    Data are left alone, and whatever refers to something that is not there waits for it. A `run --continuous` or
    `serve` that goes on takes up the change within seconds. Manifests with an error change nothing.

    For example:

        kaspr-delta apply -f bundles/order-system
        kaspr-delta apply -f bundles/order-system/join.yaml -f bundles/order-system/tables.yaml
    """
    from kaspr_delta.runtime.applying import apply_manifests

    for file in files:
        path = None if file == "-" else Path(file)
        outcomes, findings = apply_manifests(
            target.location,
            _load(path),
            app=target.app,
            path=path if prune else None,
            warn=lambda text: note(text, style="yellow", event="warning"),
        )
        for finding in findings:
            if finding.severity is Severity.WARNING:
                console().print(str(finding), style="yellow", markup=False)
        for outcome in outcomes:
            typer.echo(f"{outcome.kind.lower()}.kaspr.io/{outcome.name} {outcome.what}")


def get(
    target: Target,
    kinds: Annotated[
        str, typer.Argument(metavar="KIND[,KIND]|all|topics|events", help="Kinds, called as with kubectl: kj …")
    ],
    name: Annotated[str | None, typer.Argument(help="Only the resource of that name.")] = None,
    output: Annotated[ResourceOutput | None, typer.Option("--output", "-o", help="More columns, JSON or YAML.")] = None,
) -> None:
    """List applied resources: whether they are ready, their rows and their lag.

    `topics` are listed by themselves: they have no manifests.
    ROWS: the rows of a table or of a join's result; of other resources, the records they have read. LAG: the rows and
    records they have not read yet.
    Kaspr's columns MEMBERS and REBALANCING are not there: they count worker pods that share out the partitions of
    topics. Here each resource is run by one process at a time, and nothing is shared out.

    For example:

        kaspr-delta get kj
        kaspr-delta get all
        kaspr-delta get ktable orders -o yaml
    """
    from kaspr_delta.control.resource_status import resource_statuses
    from kaspr_delta.runtime.applying import applied_registry
    from kaspr_delta.runtime.facts import plan_and_facts

    registry = applied_registry(target.location, target.app)
    if kinds.lower() in _EVENTS:
        _print_events(sorted(registry.events()), output)
        return
    if kinds.lower() in NAMES:
        _print_topics(topics_in(*plan_and_facts(registry), name), name, output)
        return
    everything = list(resource_statuses(registry.documents(), *plan_and_facts(registry)))
    wanted = KINDS_BY_COMMAND if kinds == "all" else tuple(kind_called(kind) for kind in kinds.split(","))
    chosen = [one for kind in wanted for one in everything if one.document.kind == kind]
    if name is not None:
        chosen = [_named(chosen, wanted[0], name)]
    if output in {ResourceOutput.JSON, ResourceOutput.YAML}:
        plain = [one.resource for one in chosen]
        _print_plain(plain[0] if name is not None else _list_of(plain), output)
    elif not chosen:
        console().print("No resources found", markup=False)
    else:
        blocks = (_table(chosen, kind, wide=output is not None, prefixed=len(wanted) > 1) for kind in wanted)
        typer.echo("\n\n".join(filter(None, blocks)))


def describe(
    target: Target,
    kind: Annotated[
        str, typer.Argument(help="A kind, called as with kubectl: kjoin, ktable …", autocompletion=complete_kind)
    ],
    name: Annotated[str, typer.Argument(help="The resource's name.", autocompletion=complete_name)],
) -> None:
    """Show a resource: its manifest, its status, and the events of the resources that it refers to.

    For example:

        kaspr-delta describe kjoin orders-products-join
    """
    from kaspr_delta.control.resource_status import events_of, resource_statuses
    from kaspr_delta.runtime.applying import applied_registry
    from kaspr_delta.runtime.facts import plan_and_facts

    registry = applied_registry(target.location, target.app)
    if kind.lower() in NAMES:
        (topic,) = topics_in(*plan_and_facts(registry), name)
        typer.echo("\n".join(described(topic)))
        return
    full = kind_called(kind)
    everything = resource_statuses(registry.documents(), *plan_and_facts(registry))
    one = _named([one for one in everything if one.document.kind == full], full, name)
    resource = one.resource
    metadata = resource.pop("metadata")
    head = {"name": metadata.pop("name"), "namespace": metadata.pop("namespace")}
    head |= {name: metadata.pop(name, None) for name in ("labels", "annotations")}
    ordered = {**head, "apiVersion": resource.pop("apiVersion"), "kind": resource.pop("kind"), "metadata": metadata}
    for line in described({**ordered, **resource}):
        typer.echo(line)
    events = events_of(registry.events(), one.document)
    typer.echo("Events:" if events else "Events:  <none>")
    if events:
        rows = [(one.type, one.reason, age(one.at), "kaspr-delta", one.message) for one in events]
        heading = ("Type", "Reason", "Age", "From", "Message")
        for line in columns(heading, [tuple("-" * len(title) for title in heading), *rows]):
            typer.echo(f"  {line}")


def _load(path: Path | None) -> LoadedManifests:
    return load_bytes(sys.stdin.buffer.read(LONGEST_FILE + 1), "standard input") if path is None else load_path(path)


def _named(among: Iterable[ResourceStatus], kind: str, name: str) -> ResourceStatus:
    known = {one.document.name: one for one in among}
    if name not in known:
        raise NotFoundError.among(short_kind(kind), name, known)
    return known[name]


def _table(chosen: list[ResourceStatus], kind: str, *, wide: bool, prefixed: bool) -> str:
    rows = [one for one in chosen if one.document.kind == kind]
    if not rows:
        return ""
    shown = {**_COLUMNS[kind == "KasprApp"], **(_WIDE if wide else {})}
    heading = ("NAME", *shown)
    prefix = f"{kind.lower()}.kaspr.io/" if prefixed else ""
    return "\n".join(
        columns(heading, [(prefix + one.document.name, *(of(one) for of in shown.values())) for one in rows])
    )


_READY: dict[str, Callable[[ResourceStatus], str]] = {"READY": lambda one: str(one.ready)}
_AGE: dict[str, Callable[[ResourceStatus], str]] = {"AGE": lambda one: age(one.document.created)}
# Columns of applications (True), and of all other kinds (False).
_COLUMNS: dict[bool, dict[str, Callable[[ResourceStatus], str]]] = {
    True: {"VERSION": lambda one: str(one.status["kasprVersion"]), **_READY, **_AGE},
    False: {**_READY, "ROWS": lambda one: count_text(one.rows), "LAG": lambda one: count_text(one.lag), **_AGE},
}
_WIDE: dict[str, Callable[[ResourceStatus], str]] = {
    "APP": lambda one: one.application,
    "DELTA NAME": lambda one: one.keeps or "<none>",
    "GENERATION": lambda one: str(one.document.generation),
    "HASH": lambda one: str(one.status["hash"]),
    "WAITS FOR": lambda one: what_for(one.waits) or "<none>",
}


def _print_topics(topics: list[dict[str, Any]], name: str | None, output: ResourceOutput | None) -> None:
    if output in {ResourceOutput.JSON, ResourceOutput.YAML}:
        _print_plain(topics[0] if name is not None else {"items": topics}, output)
    elif topics:
        typer.echo(topic_lines(topics))
    else:
        console().print("No resources found", markup=False)


def _list_of(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _print_plain(shown: dict[str, Any], output: ResourceOutput | None) -> None:
    typer.echo(yaml_text(shown).rstrip() if output is ResourceOutput.YAML else json.dumps(shown, indent=2))


def _print_events(events: list[Event], output: ResourceOutput | None) -> None:
    if output in {ResourceOutput.JSON, ResourceOutput.YAML}:
        plain = [
            {
                "type": event.type,
                "reason": event.reason,
                "involvedObject": {"kind": event.kind, "name": event.name},
                "message": event.message,
                "lastTimestamp": f"{event.at:%Y-%m-%dT%H:%M:%SZ}",
            }
            for event in events
        ]
        _print_plain(_list_of(plain), output)
        return
    rows = [
        (age(event.at), event.type, event.reason, f"{event.kind.lower()}/{event.name}", event.message)
        for event in events
    ]
    for line in columns(("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"), rows):
        typer.echo(line)

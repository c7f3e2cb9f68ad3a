"""``kaspr-delta apply``, ``get``, ``describe`` and ``delete``: applied resources, in the manner of kubectl."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kaspr_delta.cli.completion import complete_kind, complete_name
from kaspr_delta.cli.deployed import ProfileOption, TargetOption
from kaspr_delta.cli.operation import operate
from kaspr_delta.cli.progress import console, note, warn
from kaspr_delta.cli.target import Target
from kaspr_delta.control.kubectl import age, columns, described, yaml_text
from kaspr_delta.errors import ManifestError, NotFoundError
from kaspr_delta.plan.definition.waiting import in_words, what_for
from kaspr_delta.spec.diagnostics import Severity, has_errors, sorted_findings
from kaspr_delta.spec.kinds import KINDS_BY_COMMAND, kind_called, short_kind
from kaspr_delta.spec.limits import LONGEST_FILE
from kaspr_delta.spec.loader import LoadedManifests, load_bytes, together

if TYPE_CHECKING:
    from kaspr_delta.control.events import Event
    from kaspr_delta.control.figures import Figures
    from kaspr_delta.control.resource_status import ResourceStatus
    from kaspr_delta.plan.definition.application import Plan


_EVENTS = {"event", "events", "ev"}
_TOPICS = {"topic", "topics", "ktopic", "ktopics"}


ResourceOutput = Literal["wide", "json", "yaml"]
"""The forms in which resources are shown."""


def apply(
    target: Target,
    files: Annotated[
        list[str],
        typer.Option("--filename", "-f", metavar="PATH|-", help="A manifest, a folder, or - for input."),
    ],
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Delete resources that these files had when last applied."),
    ] = False,
) -> None:
    """Add resources to their applications, or change those that are there. The order does not matter.

    Data are left alone, and whatever refers to something that is not there waits for it. A `run --continuous` or
    `serve` that goes on takes up the change within seconds. A file with an error changes nothing.

    For example:

        kaspr-delta apply -f bundles/order-system
        kaspr-delta apply -f bundles/order-system/join.yaml -f bundles/order-system/tables.yaml
    """
    from kaspr_delta.plan.builder.build import build_plans
    from kaspr_delta.runtime.applying import apply_manifests

    paths = [None if file == "-" else Path(file) for file in files]
    everything = [_load(target, path) for path in paths]
    found = sorted_findings(finding for loaded in everything for finding in build_plans(loaded)[1])
    if has_errors(found):
        raise ManifestError(found)
    given = together(everything)
    for path, loaded in zip(paths, everything, strict=True):
        outcomes, findings = apply_manifests(
            target.location, loaded, app=target.app, path=path if prune else None, others=given, warn=warn
        )
        for finding in findings:
            if finding.severity is Severity.WARNING:
                warn(str(finding))
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
    from kaspr_delta.control.figures import plan_and_figures
    from kaspr_delta.control.resource_status import resource_statuses
    from kaspr_delta.runtime.applying import applied_registry

    registry = applied_registry(target.location, target.app)
    if kinds.lower() in _EVENTS:
        events = [event for event in registry.events() if name in {None, event.name}]
        _print(_list_of([_event_as_json(event) for event in events]), _event_lines(events), output)
        return
    documents = registry.documents()
    plan, figures = plan_and_figures(registry, documents)
    if kinds.lower() in _TOPICS:
        topics = _topics_in(plan, figures, name)
        _print({"items": topics} if name is None else topics[0], _topic_lines(topics), output)
        return
    everything = list(resource_statuses(documents, plan, figures))
    wanted = KINDS_BY_COMMAND if kinds == "all" else tuple(kind_called(kind) for kind in kinds.split(","))
    chosen = [one for kind in wanted for one in everything if one.document.kind == kind]
    if name is not None:
        chosen = [_named(chosen, wanted[0], name)]
    plain = [one.resource for one in chosen]
    blocks = (_table(chosen, kind, wide=output is not None, prefixed=len(wanted) > 1) for kind in wanted)
    _print(_list_of(plain) if name is None else plain[0], "\n\n".join(filter(None, blocks)), output)


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
    from kaspr_delta.control.figures import plan_and_figures
    from kaspr_delta.control.resource_status import events_of, resource_statuses
    from kaspr_delta.runtime.applying import applied_registry

    registry = applied_registry(target.location, target.app)
    documents = registry.documents()
    plan, figures = plan_and_figures(registry, documents)
    if kind.lower() in _TOPICS:
        (topic,) = _topics_in(plan, figures, name)
        typer.echo("\n".join(described(topic)))
        return
    full = kind_called(kind)
    everything = resource_statuses(documents, plan, figures)
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
        rows = [(one.type, one.reason, age(one.at), "kaspr-delta", one.first_line) for one in events]
        heading = ("Type", "Reason", "Age", "From", "Message")
        for line in columns(heading, [tuple("-" * len(title) for title in heading), *rows]):
            typer.echo(f"  {line}")


def delete(
    target: Target,
    kind: Annotated[
        str,
        typer.Argument(
            help="A kind, called as with kubectl: table, kjoin, kaspragents …", autocompletion=complete_kind
        ),
    ],
    name: Annotated[str, typer.Argument(help="The resource's name.", autocompletion=complete_name)],
    purge: Annotated[bool, typer.Option("--purge", help="Delete its tables and state as well, for good.")] = False,
    deployed: TargetOption = None,
    profile: ProfileOption = None,
) -> None:
    """Remove a resource from the applied application; its manifest file stays.

    Resources that need it wait from then on: each is printed. A running `run --continuous` or `serve` stops using it
    within seconds. Its data stay, and are used again if it is applied again; --purge deletes them too.

    With --target the job for operations that was deployed to that target does it. The next run applies the manifests
    that were deployed, and so a resource that is still among them begins anew.

    For example:

        kaspr-delta delete join orders-products-join
        kaspr-delta delete ktable products --purge
        kaspr-delta delete agent mails --purge --target prod
    """
    if deployed is not None:
        operate(deployed, target.app, profile, ["delete", kind, name, *(["--purge"] if purge else [])])
        return
    from kaspr_delta.control.documents import kind_among, without
    from kaspr_delta.control.resource_status import newly_waiting
    from kaspr_delta.runtime.applying import applied_registry

    registry = applied_registry(target.location, target.app)
    before = registry.documents()
    full = kind_among(before, kind)
    if purge:
        target.open().delete(kind, name, purge=True)
        after = registry.documents()
    else:
        before, after = registry.change(lambda before: without(before, full, name))
    typer.echo(f'{full.lower()}.kaspr.io "{name}" deleted')
    note("its data with it" if purge else "its data stay (--purge would delete them too)")
    for ref, reason in newly_waiting(registry.plan(before), registry.plan(after)):
        typer.echo(f"{ref} {in_words(reason)}")


def _load(target: Target, path: Path | None) -> LoadedManifests:
    if path is not None:
        return target.load(path)
    return load_bytes(sys.stdin.buffer.read(LONGEST_FILE + 1), "standard input", values=target.values)


def _named(among: Iterable[ResourceStatus], kind: str, name: str) -> ResourceStatus:
    known = {one.document.name: one for one in among}
    if name not in known:
        raise NotFoundError.among(short_kind(kind), name, known)
    return known[name]


def _print(plain: dict[str, Any], lines: str, output: ResourceOutput | None) -> None:
    if output == "yaml":
        typer.echo(yaml_text(plain).rstrip())
    elif output == "json":
        typer.echo(json.dumps(plain, indent=2))
    elif lines:
        typer.echo(lines)
    else:
        console().print("No resources found", markup=False)


def _list_of(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _lines(rows: Sequence[Mapping[str, str]]) -> str:
    """A table of rows with the same headings."""
    return "\n".join(columns(tuple(rows[0]), [tuple(row.values()) for row in rows])) if rows else ""


def _table(chosen: list[ResourceStatus], kind: str, *, wide: bool, prefixed: bool) -> str:
    prefix = f"{kind.lower()}.kaspr.io/" if prefixed else ""
    shown = (one for one in chosen if one.document.kind == kind)
    return _lines([{"NAME": prefix + one.document.name, **_cells(one, wide=wide)} for one in shown])


def _cells(one: ResourceStatus, *, wide: bool) -> dict[str, str]:
    ready, since = {"READY": str(one.ready)}, {"AGE": age(one.document.created)}
    if one.document.kind == "KasprApp":
        cells = {"VERSION": str(one.status["kasprVersion"]), **ready, **since}
    else:
        cells = {**ready, "ROWS": _count_text(one.rows), "LAG": _count_text(one.lag), **since}
    if wide:
        cells |= {
            "APP": one.application,
            "DELTA NAME": one.keeps or "<none>",
            "GENERATION": str(one.document.generation),
            "HASH": str(one.status["hash"]),
            "WAITS FOR": what_for(one.waits) or "<none>",
        }
    return cells


def _event_as_json(event: Event) -> dict[str, Any]:
    return {
        "type": event.type,
        "reason": event.reason,
        "involvedObject": {"kind": event.kind, "name": event.name},
        "message": event.message,
        "lastTimestamp": f"{event.at:%Y-%m-%dT%H:%M:%SZ}",
    }


def _event_lines(events: list[Event]) -> str:
    objects = (f"{event.kind.lower()}/{event.name}" for event in events)
    rows = [(age(one.at), one.type, one.reason, at, one.first_line) for one, at in zip(events, objects, strict=True)]
    return "\n".join(columns(("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"), rows))


def _topics_in(plan: Plan | None, figures: Figures, name: str | None = None) -> list[dict[str, Any]]:
    """The topics of an application, or the one of a name, as plain data. Raises NotFoundError.

    Where a number cannot be read, the reason stands in its place.
    """
    topics = () if plan is None else plan.topics
    if name is not None and name not in {topic.name for topic in topics}:
        raise NotFoundError.among("topic", name, [topic.name for topic in topics])
    return [
        {
            "name": topic.name,
            "bound": None if topic.binding is None else topic.binding.text,
            "records": figures.rows(topic.delta_name),
            "lag": None if topic.binding is None else figures.lag(topic.ref),
            "deadLetters": figures.done_of(topic.ref).get("dead_letters"),
            "partitions": topic.partitions,
            "deltaName": topic.delta_name,
        }
        for topic in topics
        if name in {None, topic.name}
    ]


def _topic_lines(topics: list[dict[str, Any]]) -> str:
    return _lines(
        [
            {
                "NAME": one["name"],
                "RECORDS": _count_text(one["records"]),
                "LAG": _count_text(one["lag"]),
                "BOUND": one["bound"] or "<none>",
            }
            for one in topics
        ]
    )


def _count_text(number: int | str | None) -> str:
    """A number, or ``unknown`` where a reason stands in its place."""
    return "" if number is None else "unknown" if isinstance(number, str) else str(number)

"""Notes on what is accepted and may surprise: one for each manifest, one for each function.

Fields that Kaspr has and the models do not describe have no effect here. Functions that call other services run in
Spark's Python workers, which may have no network.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication
from kaspr_delta.plan.definition.resources import AgentPlan, sends_of
from kaspr_delta.spec.app import AppConfig, AppSpec
from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.diagnostics import Location, Report
from kaspr_delta.spec.fields import description_of, spec_at
from kaspr_delta.spec.manifest import KINDS
from kaspr_delta.spec.messages import field_name
from kaspr_delta.spec.near import nearest
from kaspr_delta.spec.resource import ResourceSpec
from kaspr_delta.spec.topics import WITH_EFFECT, StreamSide

# A function that imports one of these modules most likely uses a network.
_OVER_A_NETWORK = re.compile(
    r"aiohttp|boto3|botocore|ftplib|grpc|http|httpx|kafka|psycopg|psycopg2|pymongo|redis|requests|smtplib|socket"
    r"|urllib\.request|urllib3|websockets"
)


def has_effect(kind: str, path: FieldPath) -> bool:
    """Whether a field of a kind's ``spec`` has an effect here; ``*`` in the path stands for any one element.

    >>> has_effect("KasprAgent", ("output", "topics", "*", "name")), has_effect("KasprApp", ("replicas",))
    (True, False)
    """
    owner, field = spec_at(KINDS[kind], ("spec", *path[:-1])), path[-1]
    if owner is None:  # a setting of a topic, or an element of a list
        return path[-2:-1] not in {("config",), ("extraTopicConfigs",)} or field in WITH_EFFECT
    described = bool(description_of(KINDS[kind], ("spec", *path)))
    return described or (field not in owner.fields_by_name() and owner is not AppConfig)


def note_fields_without_effect(application: DeclaredApplication, report: Report) -> None:
    """Add a note for each manifest of an application with fields that have no effect."""
    if application.app is not None:
        _note_unknown_settings(application.app, report)
    for resource in application.resources():
        _note(resource, set(_without_effect(resource, application)), report)


def _without_effect(resource: Declared[ResourceSpec], application: DeclaredApplication) -> Iterator[FieldPath]:
    """The fields that have an effect in other manifests only."""
    spec: Any = resource.spec
    sides: dict[str, StreamSide | None] = {}
    match resource.loaded.manifest.kind:
        case "KasprApp" if not any(binding.kafka for binding in spec.topics.values()):
            yield from (("bootstrapServers",), ("tls",), ("authentication",))
        case "KasprTable":
            by_key = [one.spec for one in application.joins.values() if one.spec.shape in {"same-key", "stream-table"}]
            if not any(resource.name in {join.left_table, join.right_table} for join in by_key):
                yield ("global",)
            sides = {"from": spec.from_}
        case "KasprJoin":
            sides = {"leftStream": spec.left_stream, "rightStream": spec.right_stream}
    # The join that writes a channel defines its serializers.
    for field, side in sides.items():
        if side is not None and side.channel is not None:
            yield from ((field, "keySerializer"), (field, "valueSerializer"))


def _note_unknown_settings(app: Declared[AppSpec], report: Report) -> None:
    config = app.spec.config
    for setting in config.model_extra or {}:
        near = nearest(setting, config.fields_by_name())
        if near is not None:
            message = f"'{setting}' in spec.config is no setting of Kaspr"
            report.note(app.key_at("config", setting), message, f"did you mean '{near}'?")


def _note(resource: Declared[ResourceSpec], others: Collection[FieldPath], report: Report) -> None:
    kind = resource.loaded.manifest.kind
    listed: dict[FieldPath, str] = {}
    for path in (path[1:] for path in resource.loaded.positions.locations if path[:1] == ("spec",) and path[1:]):
        inside = any(path[:depth] in listed for depth in range(1, len(path)))
        if not inside and (path in others or not has_effect(kind, path)):
            listed[path] = field_name(path)
    if resource.spec.name not in {None, resource.name}:
        listed["name",] = f"name (the name that counts is metadata.name, '{resource.name}')"
    if listed:
        hint = "topics are Delta tables: no broker is contacted where `topics` binds none"
        hint = hint if ("bootstrapServers",) in listed else ""
        location = min(resource.key_at(*path) for path in listed)
        report.note(location, f"accepted, without effect here: {', '.join(listed.values())}", hint)


def note_calls_from_workers(agents: Iterable[AgentPlan], report: Report) -> None:
    """Add a note for each function that imports such a module, of agents without tables and without ``take``."""
    for agent in agents:
        if agent.ordered:
            continue
        selectors = (selector for send in sends_of(agent) for selector in send.functions)
        for function in (agent.init, *(operation.function for operation in agent.pipeline), *selectors):
            imported = sorted(filter(_OVER_A_NETWORK.fullmatch, function.imports)) if function else ()
            if function and imported:
                message = f"agent '{agent.name}' runs this in Spark's Python workers when a batch is large, and they"
                message += f" may have no network; it imports {' and '.join(imported)}"
                hint = "an agent with a table or `take` stays out of them: see 'Where functions run' in docs/agents.md"
                report.note(Location(function.file, function.first_line), message, hint)

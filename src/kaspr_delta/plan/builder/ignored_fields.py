"""Fields that are accepted because Kaspr has them, but have no effect here: one note per manifest lists them."""

from __future__ import annotations

from collections.abc import Iterator

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication
from kaspr_delta.plan.builder.report import Report
from kaspr_delta.spec.app import AppSpec
from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.join import JoinSpec
from kaspr_delta.spec.messages import field_name
from kaspr_delta.spec.near import nearest
from kaspr_delta.spec.resource import ResourceSpec
from kaspr_delta.spec.streams import StreamSide
from kaspr_delta.spec.topic_configs import WITH_EFFECT

_DECLARATION = (*((name,) for name in ("declare", "compacting", "deleting", "replicas")), ("config", "*"))
_CONFIG_WITH_EFFECT = {"topicPartitions", "keySerializer", "valueSerializer", "eventTimeout", "feedRetention", "onGap"}

# "*" stands for any one step of a path. A note lists only fields that the manifest has.
_APP: tuple[tuple[str, ...], ...] = (
    *((name,) for name in ("version", "image", "replicas", "resources")),
    *((name,) for name in ("livenessProbe", "readinessProbe", "storage", "template")),
    ("config", "*"),
    *(("pythonPackages", name) for name in ("indexUrl", "extraIndexUrls", "trustedHosts", "credentials", "cache")),
    *(("pythonPackages", name) for name in ("installPolicy", "resources")),
)
# These have an effect if a topic is bound to Kafka.
_KAFKA = (("bootstrapServers",), ("tls",), ("authentication",))
_TABLE = (("options",), ("extraTopicConfigs", "*"))
_SPELLING = ("keySerializer", "valueSerializer")
_SENDS = tuple(("processors", "operations", "*", "topicSend", *field) for field in _DECLARATION)
_AGENT = (
    ("isolatedPartitions",),
    ("input", "declare"),
    *(("input", "topic", *field) for field in _DECLARATION),
    *(("output", "topics", "*", *field) for field in _DECLARATION),
    *_SENDS,
)


_WITHOUT_EFFECT = {
    "KasprApp": _APP,
    "KasprTable": _TABLE,
    "KasprAgent": _AGENT,
    "KasprTask": (("onLeader",), *_SENDS),
    "KasprWebView": _SENDS,
}


def has_effect(kind: str, path: tuple[str, ...]) -> bool:
    """Whether a field of a kind's ``spec`` has an effect here; ``*`` in the path stands for any one element.

    >>> has_effect("KasprAgent", ("output", "topics", "*", "name")), has_effect("KasprApp", ("replicas",))
    (True, False)
    """
    patterns = _WITHOUT_EFFECT.get(kind, ())
    return not any(_matches(path, pattern) for pattern in patterns) or _is_a_setting_with_effect(path)


def note_fields_without_effect(application: DeclaredApplication, report: Report) -> None:
    """Add a note for each manifest of an application with fields that have no effect."""
    if application.app is not None:
        _note_unknown_settings(application.app, report)
        reaches_kafka = any(binding.kafka for binding in application.app.spec.topics.values())
        _note(application.app, _APP if reaches_kafka else (*_KAFKA, *_APP), report)
    looked_up = {name for join in application.joins.values() for name in _looked_up_by_key(join.spec)}
    for table in application.tables.values():
        everywhere = () if table.name in looked_up else (("global",),)
        _note(table, (*everywhere, *_WITHOUT_EFFECT["KasprTable"], *_of_channel("from", table.spec.from_)), report)
    for join in application.joins.values():
        left, right = join.spec.left_stream, join.spec.right_stream
        _note(join, (*_of_channel("leftStream", left), *_of_channel("rightStream", right)), report)
    for agent in application.agents.values():
        _note(agent, _WITHOUT_EFFECT["KasprAgent"], report)
    for task in application.tasks.values():
        _note(task, _WITHOUT_EFFECT["KasprTask"], report)
    for view in application.web_views.values():
        _note(view, _SENDS, report)


def _looked_up_by_key(join: JoinSpec) -> Iterator[str]:
    """The tables for which ``global`` has an effect."""
    if join.shape in {"same-key", "stream-table"}:
        yield from filter(None, (join.left_table, join.right_table))


def _of_channel(field: str, side: StreamSide | None) -> Iterator[tuple[str, ...]]:
    """The serializers of a channel, which have no effect: the join defines them."""
    if side is not None and side.channel is not None:
        yield from ((field, name) for name in _SPELLING)


def _note_unknown_settings(app: Declared[AppSpec], report: Report) -> None:
    config = app.spec.config
    for setting in config.model_extra or {}:
        near = nearest(setting, config.field_names())
        if near is not None:
            location = app.source.locate("spec", "config", setting)
            report.note(location, f"'{setting}' in spec.config is no setting of Kaspr", f"did you mean '{near}'?")


def _note(resource: Declared[ResourceSpec], patterns: tuple[tuple[str, ...], ...], report: Report) -> None:
    written = [
        path
        for path in resource.source.positions.locations
        if path[:1] == ("spec",) and any(_matches(path[1:], pattern) for pattern in patterns)
    ]
    names = [field_name(path[1:]) for path in written if not _is_a_setting_with_effect(path[1:])]
    listed = [path for path in written if field_name(path[1:]) in names]
    if resource.spec.name not in {None, resource.name}:
        listed.append(("spec", "name"))
        names.append(f"name (the name that counts is metadata.name, '{resource.name}')")
    if listed:
        hint = "topics are Delta tables: no broker is contacted where `topics` binds none"
        hint = hint if "bootstrapServers" in names else ""
        location = min(resource.source.locate(*path) for path in listed)
        report.note(location, f"accepted, without effect here: {', '.join(names)}", hint)


def _is_a_setting_with_effect(path: FieldPath) -> bool:
    if path[0] == "config":
        return path[-1] in _CONFIG_WITH_EFFECT
    return len(path) > 1 and path[-2] in {"config", "extraTopicConfigs"} and path[-1] in WITH_EFFECT


def _matches(path: FieldPath, pattern: tuple[str, ...]) -> bool:
    if len(path) != len(pattern):
        return False
    return all(expected in {"*", step} for step, expected in zip(path, pattern, strict=True))

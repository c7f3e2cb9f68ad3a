"""A plan as text for people and as JSON for programs, made from the object that the engine reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition.application import Plan, Stage
from kaspr_delta.plan.definition.joins import JoinPlan
from kaspr_delta.plan.definition.resources import (
    AgentPlan,
    ChannelInput,
    OperationPlan,
    ResourceRef,
    SendPlan,
    Serializers,
    TaskPlan,
    TopicPlan,
    WebViewPlan,
)
from kaspr_delta.plan.definition.window import WindowPlan
from kaspr_delta.plan.explain.join_text import aggregation_text, join_text
from kaspr_delta.spec.diagnostics import Finding, Location
from kaspr_delta.spec.durations import duration_text

_COMPUTED = "topic by function"


def as_text(plan: Plan) -> str:
    """The plan as an outline."""
    return "\n".join(_lines(plan))


def as_json(plan: Plan) -> dict[str, Any]:
    """The whole plan as plain data: names in camelCase as in the manifests, resources as ``kind/name``."""
    encoded: dict[str, Any] = _encoded(plan)
    encoded["waiting"] = [{"resource": str(resource), "reason": reason} for resource, reason in plan.waiting]
    return encoded


def _lines(plan: Plan) -> Iterator[str]:
    yield f"application {plan.application} (id {plan.application_id}, schema {plan.schema})"
    yield from _section("topics", ((topic.name, _topic(topic)) for topic in plan.topics))
    yield from _section(
        "tables",
        (
            (
                table.name,
                f"{_serializers(table.serializers)}, {table.partitions} partitions, changelog {table.changelog}"
                + (f", {_window(table.window)}" if table.window else ""),
            )
            for table in plan.tables
        ),
    )
    made = ((aggregation.name, aggregation_text(plan, aggregation)) for aggregation in plan.aggregations)
    yield from _section("tables made from something", made)
    yield from _section("joins", ((join.name, join_text(join)) for join in plan.joins))
    yield from _section("agents", ((agent.name, _agent(agent)) for agent in plan.agents))
    yield from _section("tasks", ((task.name, _task(task)) for task in plan.tasks))
    yield from _section("web views", ((view.name, _web_view(view)) for view in plan.web_views))
    shared = ((str(number), _names(group)) for number, group in enumerate(plan.groups, 1) if len(group) > 1)
    yield from _section("agents that share tables", shared)
    yield from _section("stages", ((str(number), _stage(stage)) for number, stage in enumerate(plan.stages, 1)))
    yield from _section("waiting", ((str(resource), reason) for resource, reason in plan.waiting))
    yield from _section("python packages", ((package, "") for package in plan.python_packages))


def _section(title: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    listed = list(rows)
    if listed:
        width = max(len(name) for name, _ in listed)
        yield ""
        yield title
        yield from (f"  {name.ljust(width)}  {text}".rstrip() for name, text in listed)


def _topic(topic: TopicPlan) -> str:
    return f"{topic.partitions} partitions" + (f", {topic.binding.text}" if topic.binding else "")


def _agent(agent: AgentPlan) -> str:
    if isinstance(agent.input, ChannelInput):
        source = f"channel {agent.input.channel}"
    else:
        pattern = f"topics that match {agent.input.pattern}"
        named = ", ".join(f"topic {topic}" for topic in agent.input.topics)
        source = named if agent.input.pattern is None else f"{pattern} ({named})" if named else pattern
    if agent.take:
        source += f" (up to {agent.take.most} within {duration_text(agent.take.within)})"
    steps = [source, *map(_operation, agent.pipeline)]
    if agent.outputs:
        steps.append(", ".join(_target(output) for output in agent.outputs))
    tables = f" [tables: {', '.join(agent.tables)}]" if agent.tables else ""
    return " -> ".join(steps) + tables


def _task(task: TaskPlan) -> str:
    if task.schedule is None:
        when = "once at the start"
    elif task.schedule.interval is not None:
        when = f"every {duration_text(task.schedule.interval)}"
    else:
        when = f"{task.schedule.cron} ({task.schedule.timezone})"
    tables = f" [tables: {', '.join(task.tables)}]" if task.tables else ""
    return " -> ".join([when, *map(_operation, task.pipeline)]) + tables


def _web_view(view: WebViewPlan) -> str:
    tables = f" [tables: {', '.join(view.tables)}]" if view.tables else ""
    return " -> ".join([f"{view.method} {view.path}", *map(_operation, view.pipeline)]) + tables


def _window(window: WindowPlan) -> str:
    every = f" every {duration_text(window.step)}" if window.step != window.size else ""
    shape = f"windows of {duration_text(window.size)}{every}"
    kept = f", kept for {duration_text(window.expires)}" if window.expires is not None else ""
    late = f", grace {duration_text(window.grace)}" if window.grace else ""
    closed = ", shown once they close" if window.emit == "close" else ""
    return f"{shape} by {window.relative_to} time{kept}{late}{closed}"


def _operation(operation: OperationPlan) -> str:
    return f"{operation.name} (send to {_target(operation.send)})" if operation.send else operation.name


def _target(output: SendPlan) -> str:
    return f"topic {output.topic}" if output.topic else _COMPUTED


def _stage(stage: Stage) -> str:
    loop = "it feeds itself" if len(stage.resources) == 1 else "they feed one another"
    return _names(stage.resources) + (f" (until quiet: {loop})" if stage.loop else "")


def _names(resources: Iterable[ResourceRef]) -> str:
    return ", ".join(map(str, resources))


def _serializers(serializers: Serializers) -> str:
    return f"{serializers.key}/{serializers.value}"


def _encoded(value: Any) -> Any:
    match value:
        case ResourceRef() | Location():
            return str(value)
        case Snippet():
            location = Location(value.file, value.first_line)
            return {"entrypoint": value.entrypoint or None, "location": str(location), "python": value.source}
        case Finding():
            return {
                "severity": value.severity.name.lower(),
                "location": str(value.location),
                "message": value.message,
                "hint": value.hint or None,
            }
        case tuple():
            return [_encoded(element) for element in value]
        case _ if is_dataclass(value):
            shape = {"shape": value.shape} if isinstance(value, JoinPlan) else {}
            shown = (field.name for field in fields(value) if field.metadata.get("shown", True))
            return shape | {to_camel(name): _encoded(getattr(value, name)) for name in shown}
        case _:
            return value

"""A plan as text for people and as JSON for programs, made from the object that the engine reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition import joins
from kaspr_delta.plan.definition import resources as plans
from kaspr_delta.plan.definition.application import Plan, Stage
from kaspr_delta.plan.definition.joins import AggregationPlan
from kaspr_delta.plan.definition.window import WindowPlan
from kaspr_delta.spec.diagnostics import Finding, Location
from kaspr_delta.spec.durations import duration_text


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
    yield from _section("tables", ((table.name, _table(table)) for table in plan.tables))
    made = ((aggregation.name, _aggregation(plan, aggregation)) for aggregation in plan.aggregations)
    yield from _section("tables made from something", made)
    yield from _section("joins", ((join.name, _join(join)) for join in plan.joins))
    yield from _section("agents", ((agent.name, _agent(agent)) for agent in plan.agents))
    yield from _section("tasks", ((task.name, _task(task)) for task in plan.tasks))
    yield from _section(
        "web views", ((view.name, _pipeline(view, f"{view.method} {view.path}")) for view in plan.web_views)
    )
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


def _topic(topic: plans.TopicPlan) -> str:
    return f"{topic.partitions} partitions" + (f", {topic.binding.text}" if topic.binding else "")


def _table(table: plans.TablePlan) -> str:
    of, window = table.serializers, f", {_window(table.window)}" if table.window else ""
    source = None if table.typed is None else table.typed.source
    read = "" if source is None else f", source {source}"
    return f"{of.key}/{of.value}, {table.partitions} partitions, changelog {table.changelog}{window}{read}"


def _agent(agent: plans.AgentPlan) -> str:
    if isinstance(agent.input, plans.ChannelInput):
        source = f"channel {agent.input.channel}"
    else:
        pattern = f"topics that match {agent.input.pattern}"
        named = ", ".join(f"topic {topic}" for topic in agent.input.topics)
        source = named if agent.input.pattern is None else f"{pattern} ({named})" if named else pattern
    if agent.take:
        source += f" (up to {agent.take.most} within {duration_text(agent.take.within)})"
    return _pipeline(agent, source)


def _task(task: plans.TaskPlan) -> str:
    if task.schedule is None:
        when = "once at the start"
    elif task.schedule.interval is not None:
        when = f"every {duration_text(task.schedule.interval)}"
    else:
        when = f"{task.schedule.cron} ({task.schedule.timezone})"
    return _pipeline(task, when)


def _pipeline(plan: plans.PipelinePlan, beginning: str) -> str:
    steps = (f"{step.name} (send to {_target(step.send)})" if step.send else step.name for step in plan.pipeline)
    outputs = ", ".join(map(_target, plan.outputs))
    tables = f" [tables: {', '.join(plan.tables)}]" if plan.tables else ""
    return " -> ".join(filter(None, (beginning, *steps, outputs))) + tables


def _window(window: WindowPlan) -> str:
    every = f" every {duration_text(window.step)}" if window.step != window.size else ""
    shape = f"windows of {duration_text(window.size)}{every}"
    kept = f", kept for {duration_text(window.expires)}" if window.expires is not None else ""
    late = f", grace {duration_text(window.grace)}" if window.grace else ""
    closed = ", shown once they close" if window.emit == "close" else ""
    return f"{shape} by {window.relative_to} time{kept}{late}{closed}"


def _target(output: plans.SendPlan) -> str:
    return f"topic {output.topic}" if output.topic else "topic by function"


def _stage(stage: Stage) -> str:
    loop = "it feeds itself" if len(stage.resources) == 1 else "they feed one another"
    return _names(stage.resources) + (f" (until quiet: {loop})" if stage.loop else "")


def _names(resources: Iterable[plans.ResourceRef]) -> str:
    return ", ".join(map(str, resources))


def _encoded(value: Any) -> Any:
    match value:
        case plans.ResourceRef() | Location():
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
            shape = {"shape": value.shape} if isinstance(value, joins.JoinPlan) else {}
            shown = (field.name for field in fields(value) if field.metadata.get("shown", True))
            return shape | {to_camel(name): _encoded(getattr(value, name)) for name in shown}
        case _:
            return value


def _join(join: joins.JoinPlan) -> str:
    match join:
        case joins.ForeignKeyJoinPlan():
            declared = join.picked is not None and join.picked.declared
            by = join.picked if declared else f"{join.extractor.entrypoint}()"
            text = f"{join.left} {join.type} join {join.right} by {by}"
        case joins.SameKeyJoinPlan():
            text = f"{join.left} {join.type} join {join.right} on key"
        case joins.StreamTableJoinPlan():
            by = f"by {join.mapper.entrypoint}()" if join.mapper else "on key"
            everywhere = "global " if join.is_global else ""
            pending = "" if join.pending is None else f", waiting for it up to {duration_text(join.pending)}"
            text = f"{_stream(join.left)} {join.type} join {everywhere}{join.right} {by}{pending}"
        case joins.RightForeignKeyJoinPlan():
            by = f"by {join.extractor.entrypoint}() of the right value"
            text = f"{_stream(join.left)} {join.type} join {join.right} {by}"
        case joins.StreamStreamJoinPlan():
            before, after, grace = map(duration_text, (join.before, join.after, join.grace))
            window = f"from {before} before to {after} after, grace {grace}"
            text = f"{_stream(join.left)} {join.type} join {_stream(join.right)} on key, {window}"
    return f"{text} -> channel {join.channel}"


def _aggregation(plan: Plan, aggregation: AggregationPlan) -> str:
    source = plans.ResourceRef.of(plan.origin_of(aggregation))
    origin = f"{source.kind} {source.name}" if isinstance(aggregation.origin, str) else _stream(aggregation.origin)
    groups = f" -> group by {aggregation.group.entrypoint}()" if aggregation.group else ""
    functions = [function for function in (aggregation.adder, aggregation.subtractor) if function]
    by = f" by {' and '.join(f'{function.entrypoint}()' for function in functions)}" if functions else ""
    return f"{origin}{groups} -> {aggregation.kind}{by}"


def _stream(stream: joins.StreamPlan) -> str:
    kind = "channel" if isinstance(stream.input, plans.ChannelInput) else "topic"
    anew = f" spread over {stream.partitions} partitions" if stream.repartitioned else ""
    return f"{kind} {stream.name}{anew}"

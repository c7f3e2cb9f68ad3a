"""Plans of agents, tasks and web views: a pipeline each, every function compiled, every topic with its serializers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, TypeAlias

from kaspr_delta.functions.call import may_get, unfilled
from kaspr_delta.functions.names import ignores
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.builder.applications import Declared, Defaults
from kaspr_delta.plan.builder.references import References
from kaspr_delta.plan.definition import resources as plans
from kaspr_delta.plan.definition.paths import SYSTEM_PATHS, parts_of, shape_of
from kaspr_delta.plan.names import log_table, task_table
from kaspr_delta.spec.agent import AgentSpec
from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.diagnostics import Location, Report
from kaspr_delta.spec.durations import milliseconds
from kaspr_delta.spec.near import suggestion
from kaspr_delta.spec.patterns import matching
from kaspr_delta.spec.task import TaskSpec
from kaspr_delta.spec.topics import SendTarget, TopicSend
from kaspr_delta.spec.webview import WebViewSpec

OPERATIONS = ("processors", "operations")
"""The path of the operations in the ``spec`` of agents, web views and tasks."""

Piped: TypeAlias = Declared[AgentSpec] | Declared[TaskSpec] | Declared[WebViewSpec]


def agent_plan(agent: Declared[AgentSpec], references: References, topics: Collection[str]) -> plans.AgentPlan | None:
    """The plan of an agent; None if it waits. ``topics`` are those that the application names."""
    spec, defaults = agent.spec, references.application.defaults
    source, common = _input(agent, references, topics), _common(agent, references)
    for table in common["tables"]:
        _compare_key_serializers(agent, table, references)
    _check_parameters(agent, references.report)
    if agent.ref in references.waiting or source is None:
        return None
    return plans.AgentPlan(
        **common,
        input=source,
        take=plans.TakePlan(spec.input.take.max, milliseconds(spec.input.take.within)) if spec.input.take else None,
        outputs=tuple(
            _send(agent, topic, ("output", "topics", index), defaults) for index, topic in enumerate(spec.output.topics)
        ),
        log=log_table(agent.name),
    )


def task_plan(task: Declared[TaskSpec], references: References) -> plans.TaskPlan | None:
    """The plan of a task; None if it waits."""
    given, common = task.spec.schedule, _common(task, references)
    _check_parameters(task, references.report)
    if task.ref in references.waiting:
        return None
    interval = milliseconds(given.interval) if given and given.interval else None
    schedule = plans.SchedulePlan(interval, given.cron, given.timezone or "UTC") if given else None
    return plans.TaskPlan(**common, schedule=schedule, log=task_table(task.name))


def web_view_plan(view: Declared[WebViewSpec], references: References) -> plans.WebViewPlan | None:
    """The plan of a web view; None if it waits."""
    request, common = view.spec.request, _common(view, references)
    _refuse_parameters_twice(view, references.report)
    in_path = tuple(part.parameter for part in parts_of(request.path) if part.parameter is not None)
    _check_parameters(view, references.report, in_path)
    if view.ref in references.waiting:
        return None
    return plans.WebViewPlan(**common, method=request.method, path=request.path, response=_response(view))


def refuse_addresses_twice(views: Collection[Declared[WebViewSpec]], report: Report) -> None:
    """Report views that would answer the same requests, or requests that the server itself answers."""
    addresses: dict[tuple[str, str], Location] = {}
    for view in sorted(views, key=lambda one: one.name):
        request, at = view.spec.request, view.at("request", "path")
        shape = shape_of(request.path)
        if shape in SYSTEM_PATHS or shape.startswith("/ui/"):
            report.error(at, f"the server itself answers {shape}", "choose another path")
        first = addresses.setdefault((request.method, shape), view.location)
        if first != view.location:
            message = f"{request.method} {request.path} is answered by the web view at {first} already"
            report.error(at, message, "change the method or the path")


def _common(resource: Piped, references: References) -> dict[str, Any]:
    """The fields that all these plans have. If a table that a step is handed is missing, the resource waits."""
    tables: dict[str, Location] = {}
    for index, operation in resource.spec.processors.steps():
        for number, table in enumerate(operation.tables):
            tables.setdefault(table.name, resource.at(*OPERATIONS, index, "tables", number, "name"))
    for name, location in tables.items():
        references.table(resource, name, location)
    return {
        "name": resource.name,
        "init": resource.snippet("processors", "init"),
        "pipeline": tuple(_pipeline(resource, references.application.defaults)),
        "tables": tuple(tables),
        "description": resource.spec.description,
        "location": resource.location,
    }


def _pipeline(resource: Piped, defaults: Defaults) -> Iterator[plans.OperationPlan]:
    """The steps of a pipeline. An operation with ``map`` and ``topicSend`` becomes two."""
    for index, operation in resource.spec.processors.steps():
        at = (*OPERATIONS, index)
        tables = tuple(plans.TableParameter(table.name, table.param_name) for table in operation.tables)
        if operation.map:
            yield plans.OperationPlan(operation.name, "map", resource.snippet(*at, "map"), None, tables)
        if operation.filter:
            yield plans.OperationPlan(operation.name, "filter", resource.snippet(*at, "filter"), None, tables)
        if operation.topic_send:
            target = _send(resource, operation.topic_send, (*at, "topicSend"), defaults)
            yield plans.OperationPlan(operation.name, "topicSend", None, target, tables)


def _send(resource: Piped, target: SendTarget, at: FieldPath, defaults: Defaults) -> plans.SendPlan:
    return plans.SendPlan(
        topic=target.name,
        name_selector=resource.snippet(*at, "nameSelector"),
        key_selector=resource.snippet(*at, "keySelector"),
        value_selector=resource.snippet(*at, "valueSelector"),
        partition_selector=resource.snippet(*at, "partitionSelector"),
        headers_selector=resource.snippet(*at, "headersSelector"),
        predicate=resource.snippet(*at, "predicate"),
        serializers=defaults.with_own(target.key_serializer, target.value_serializer),
        ack=target.ack,
        pass_through=isinstance(target, TopicSend) and target.pass_through,
    )


def _input(
    agent: Declared[AgentSpec], references: References, topics: Collection[str]
) -> plans.TopicInput | plans.ChannelInput | None:
    given = agent.spec.input
    if given.topic:
        serializers = references.application.defaults.with_own(given.topic.key_serializer, given.topic.value_serializer)
        pattern = given.topic.pattern
        names = given.topic.names if pattern is None else matching(pattern, topics)
        return plans.TopicInput(names, pattern, serializers, given.start)
    if given.channel:
        join = references.channel(agent, given.channel.name, agent.at("input", "channel", "name"))
        return plans.ChannelInput(given.channel.name, join, given.channel.tombstones, given.start) if join else None
    return None


def _compare_key_serializers(agent: Declared[AgentSpec], table: str, references: References) -> None:
    topic, application = agent.spec.input.topic, references.application
    declared = application.tables.get(table)
    if topic is None or declared is None:
        return
    read, kept = topic.key_serializer or application.defaults.serializers.key, declared.spec.key_serializer
    if read != kept:
        field = "keySerializer" if topic.key_serializer else "name" if topic.name else "pattern"
        message = f"agent '{agent.name}' reads keys as {read}, but its table '{table}' keeps {kept} keys"
        hint = "an event's key written to the table will not be found by joins; give both the same keySerializer"
        references.report.warning(agent.at("input", "topic", field), message, hint)


def _response(view: Declared[WebViewSpec]) -> plans.ResponsePlan:
    spec = view.spec.response

    def selector(field: str) -> plans.SelectorPlan:
        outcomes = (view.snippet("response", field, outcome) for outcome in ("onSuccess", "onError"))
        return plans.SelectorPlan(*outcomes)

    return plans.ResponsePlan(
        content_type=spec.content_type,
        status_code=spec.status_code or 200,
        headers=tuple((spec.headers or {}).items()),
        body=selector("bodySelector"),
        status=selector("statusCodeSelector"),
        header=selector("headersSelector"),
    )


def _refuse_parameters_twice(view: Declared[WebViewSpec], report: Report) -> None:
    """Report names used twice: the first function gets the parameters of the path and its tables by name."""
    in_path = {part.parameter for part in parts_of(view.spec.request.path)}
    for index, operation in list(view.spec.processors.steps())[:1]:
        for number, table in enumerate(operation.tables):
            if table.param_name in in_path:
                at = view.at(*OPERATIONS, index, "tables", number, "paramName")
                message = f"'{table.param_name}' is a parameter of the path {view.spec.request.path} already"
                report.error(at, message, "give the table another paramName")


def _check_parameters(resource: Piped, report: Report, in_path: tuple[str, ...] = ()) -> None:
    """Report parameters of functions that get nothing, and tables that an operation gets and none of them uses.

    Resources that share a table run one after another, so a table that is not used costs something.
    ``in_path`` are the parameters of a request's path, which the first function gets.
    """
    for number, (index, operation) in enumerate(resource.spec.processors.steps()):
        tables = tuple(table.param_name for table in operation.tables)
        offered = (*(in_path if number == 0 else ()), *tables)
        getting: dict[str, list[Snippet]] = {name: [] for name in tables}
        at = (*OPERATIONS, index)
        for path, snippet in _functions(resource, at):
            for name in tables:
                getting[name] += [snippet] if may_get(snippet, name) else []
            if path[-1] not in {"map", "filter"}:
                continue
            for name in unfilled(snippet, offered):
                message = f"nothing fills the parameter '{name}' of '{snippet.entrypoint}'"
                hint = suggestion(name, offered, "beside the value it can have")
                report.error(resource.at(*path, "python"), message, hint)
        for place, (name, functions) in enumerate(getting.items()):
            message, hint = "", "add one, or remove the table"
            if not functions:
                message = f"no function of operation '{operation.name}' has a parameter '{name}' for this table"
            elif all(ignores(snippet, name) for snippet in functions):
                message = f"no function of operation '{operation.name}' uses its parameter '{name}'"
                hint = "use it, or remove the table"
            if message:
                report.warning(resource.at(*at, "tables", place, "paramName"), message, hint)


def _functions(resource: Piped, at: FieldPath) -> Iterator[tuple[FieldPath, Snippet]]:
    """The functions of an operation, with their paths in the ``spec``."""
    for path, snippet in resource.loaded.snippets.items():
        if path[1 : 1 + len(at)] == at:
            yield path[1:], snippet

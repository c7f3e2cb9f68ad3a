"""Plans of pipelines: operations in order, every function compiled, every topic with its serializers."""

from __future__ import annotations

from collections.abc import Iterator

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.builder.applications import Declared
from kaspr_delta.plan.builder.defaults import Defaults
from kaspr_delta.plan.builder.references import References
from kaspr_delta.plan.definition.resources import OperationPlan, ResourceRef, SendPlan, TableParameter
from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.code import Code
from kaspr_delta.spec.diagnostics import Location
from kaspr_delta.spec.loader import LoadedManifest
from kaspr_delta.spec.processors import Processors
from kaspr_delta.spec.resource import ResourceSpec
from kaspr_delta.spec.topics import SendTarget, TopicSend

OPERATIONS: FieldPath = ("spec", "processors", "operations")
"""The path of the operations in the manifests of agents, web views and tasks."""


def pipeline(resource: Declared[ResourceSpec], processors: Processors, defaults: Defaults) -> Iterator[OperationPlan]:
    """The steps of a pipeline. An operation with ``map`` and ``topicSend`` becomes two."""
    for index, operation in processors.steps():
        at = (*OPERATIONS, index)
        tables = tuple(TableParameter(table.name, table.param_name) for table in operation.tables)
        if operation.map:
            function = _snippet(resource.source, operation.map, (*at, "map"))
            yield OperationPlan(operation.name, "map", function, None, tables)
        if operation.filter:
            function = _snippet(resource.source, operation.filter, (*at, "filter"))
            yield OperationPlan(operation.name, "filter", function, None, tables)
        if operation.topic_send:
            target = send(resource.source, operation.topic_send, (*at, "topicSend"), defaults)
            yield OperationPlan(operation.name, "topicSend", None, target, tables)


def send(source: LoadedManifest, target: SendTarget, at: FieldPath, defaults: Defaults) -> SendPlan:
    """The plan of a send to a topic."""
    return SendPlan(
        topic=target.name,
        name_selector=_snippet(source, target.name_selector, (*at, "nameSelector")),
        key_selector=_snippet(source, target.key_selector, (*at, "keySelector")),
        value_selector=_snippet(source, target.value_selector, (*at, "valueSelector")),
        partition_selector=_snippet(source, target.partition_selector, (*at, "partitionSelector")),
        headers_selector=_snippet(source, target.headers_selector, (*at, "headersSelector")),
        predicate=_snippet(source, target.predicate, (*at, "predicate")),
        serializers=defaults.with_own(target.key_serializer, target.value_serializer),
        ack=target.ack,
        pass_through=isinstance(target, TopicSend) and target.pass_through,
    )


def table_references(resource: Declared[ResourceSpec], processors: Processors) -> Iterator[tuple[str, Location]]:
    """The names of the tables that the steps of a pipeline are handed, in order, each with its location."""
    for index, operation in processors.steps():
        for number, table in enumerate(operation.tables):
            yield table.name, resource.source.locate_value(*OPERATIONS, index, "tables", number, "name")


def initializer(resource: Declared[ResourceSpec], processors: Processors) -> Snippet | None:
    """The function that runs before the first event, if there is one."""
    return _snippet(resource.source, processors.init, ("spec", "processors", "init"))


def tables_handed(
    ref: ResourceRef, resource: Declared[ResourceSpec], processors: Processors, references: References
) -> tuple[str, ...]:
    """The names of the tables that a pipeline is handed, each once. If one is missing, the resource waits."""
    named = tuple(table_references(resource, processors))
    for name, location in named:
        references.table(ref, "table", name, location)
    return tuple(dict.fromkeys(name for name, _ in named))


def _snippet(source: LoadedManifest, code: Code | None, at: FieldPath) -> Snippet | None:
    return source.snippet(code, *at) if code else None

"""Plans of tables that are made from a stream, a table or the result of a join."""

from __future__ import annotations

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication, channel_of
from kaspr_delta.plan.builder.references import References
from kaspr_delta.plan.builder.sides import Sides
from kaspr_delta.plan.builder.stream_serializers import refuse_unspellable
from kaspr_delta.plan.definition.aggregations import AggregationPlan
from kaspr_delta.plan.definition.joins import StreamPlan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.names import aggregation_table, contributions_table, group_times_table
from kaspr_delta.spec.aggregation import OPERATIONS, stream_origin_problems, table_origin_problems
from kaspr_delta.spec.base import FieldPath
from kaspr_delta.spec.code import Code
from kaspr_delta.spec.streams import Origin, StreamSide
from kaspr_delta.spec.table import TableSpec

_FROM: FieldPath = ("spec", "from")


def aggregation_plans(
    application: DeclaredApplication, sides: Sides, references: References
) -> tuple[AggregationPlan, ...]:
    """The aggregations of all tables with a ``from`` that do not wait, sorted by name."""
    tables = (application.tables[name] for name in sorted(application.tables))
    return tuple(filter(None, (_plan(table, table.spec.from_, sides, references) for table in tables)))


def _plan(
    table: Declared[TableSpec], given: Origin | None, sides: Sides, references: References
) -> AggregationPlan | None:
    written = table.spec.model_dump(by_alias=True, exclude_none=True)
    kind = next((name for name in OPERATIONS if name in written), None)
    if given is None or kind is None:
        return None
    ref = ResourceRef("table", table.name)
    origin = _origin(table, ref, given, sides, references)
    if origin is None or ref in references.waiting:
        return None
    spec = table.spec
    aggregate = spec.aggregate
    return AggregationPlan(
        name=table.name,
        kind=kind,
        origin=origin,
        group=_snippet(table, spec.group_by, "groupBy"),
        initializer=_snippet(table, aggregate.initializer if aggregate else None, "aggregate", "initializer"),
        adder=_snippet(table, aggregate.adder, "aggregate", "adder")
        if aggregate
        else _snippet(table, spec.reduce, "reduce"),
        subtractor=_snippet(table, aggregate.subtractor if aggregate else None, "aggregate", "subtractor"),
        log=aggregation_table(table.name),
        contributions=contributions_table(table.name),
        group_times=group_times_table(table.name),
        location=table.location,
    )


def _origin(
    table: Declared[TableSpec], ref: ResourceRef, given: Origin, sides: Sides, references: References
) -> StreamPlan | str | None:
    """The stream, or the name of the table or join; None if it is missing or cannot be an origin."""
    if given.table is not None:
        return _rows(table, ref, given.table, references)
    if given.join is not None:
        return _join(table, ref, given.join, sides, references)
    writer = None
    if given.channel is not None:
        writer = references.channel(ref, given.channel, table.source.locate_value(*_FROM, "channel"))
        if writer is None:
            return None
    stream = sides.records(given, writer=writer)
    refuse_unspellable(table.source, _FROM, stream, references)
    return stream.plan


def _rows(table: Declared[TableSpec], ref: ResourceRef, name: str, references: References) -> str | None:
    location = table.source.locate_value(*_FROM, "table")
    if not references.rows(ref, "from.table", name, location):
        return None
    origin = references.application.tables.get(name)
    if origin is not None and origin.spec.window:
        window = origin.source.locate("spec", "window")
        message = f"table '{name}' has windows (at {window}): its rows have no key of their own to make a table from"
        hint = f"make '{table.name}' from the source of '{name}'"
        references.report.error(location, message, hint)
    return name


def _join(
    table: Declared[TableSpec], ref: ResourceRef, name: str, sides: Sides, references: References
) -> StreamPlan | str | None:
    join = references.join(ref, "from.join", name, table.source.locate_value(*_FROM, "join"))
    if join is None:
        return None
    # Only here is it known whether the join gives a table or a stream.
    written = table.spec.model_dump(by_alias=True, exclude_none=True)
    rules = table_origin_problems if join.spec.has_result else stream_origin_problems
    for problem in rules(written, ("from", "join")):
        references.report.problem(table.source, ("spec",), problem)
    if join.spec.has_result:
        return name
    channel = channel_of(join)
    return sides.records(StreamSide(channel=channel), writer=name).plan


def _snippet(table: Declared[TableSpec], code: Code | None, *field: str) -> Snippet | None:
    return table.source.snippet(code, "spec", *field) if code else None

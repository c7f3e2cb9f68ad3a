"""Plans of joins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import networkx as nx

from kaspr_delta.functions.column_paths import Picked, path_of, picked
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication, channel_of
from kaspr_delta.plan.builder.copartitioning import Copartitioning
from kaspr_delta.plan.builder.references import References
from kaspr_delta.plan.builder.sides import RecordSide, RowSide, Side, Sides
from kaspr_delta.plan.builder.stream_serializers import refuse_unspellable
from kaspr_delta.plan.definition.joins import (
    ForeignKeyJoinPlan,
    JoinPlan,
    RightForeignKeyJoinPlan,
    SameKeyJoinPlan,
    Spelling,
    StreamStreamJoinPlan,
    StreamTableJoinPlan,
)
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.definition.selects import SelectPlan
from kaspr_delta.plan.names import (
    buffer_table,
    channel_table,
    delta_name,
    index_table,
    subscriptions_table,
    waiting_table,
)
from kaspr_delta.spec.code import Code
from kaspr_delta.spec.durations import milliseconds
from kaspr_delta.spec.join import JoinSpec
from kaspr_delta.spec.streams import StreamSide


def join_plans(application: DeclaredApplication, sides: Sides, references: References) -> tuple[JoinPlan, ...]:
    """The plans of all joins that do not wait, sorted by name."""
    copartitioning = Copartitioning.of(application, references.report)
    plans = [_plan(join, sides, references, copartitioning) for join in _feeders_first(application)]
    return tuple(sorted((plan for plan in plans if plan is not None), key=lambda plan: plan.name))


def _feeders_first(application: DeclaredApplication) -> Iterator[Declared[JoinSpec]]:
    """The joins, each after the joins that it reads, so that it is known whether these wait."""
    writers = {channel_of(join): join.name for join in application.joins.values()}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(sorted(application.joins))
    for join in application.joins.values():
        spec = join.spec
        tables = (name for name in (spec.left_table, spec.right_table) if name in application.joins)
        streams = (writers.get(side.channel or "") for side in (spec.left_stream, spec.right_stream) if side)
        graph.add_edges_from((join.name, read) for read in (*tables, *streams) if read)
    # Joins that are read come first. Joins that read one another in a circle may come in any order.
    for together in nx.strongly_connected_components(graph):
        yield from (application.joins[name] for name in sorted(together))


def _plan(
    join: Declared[JoinSpec], sides: Sides, references: References, copartitioning: Copartitioning
) -> JoinPlan | None:
    spec = join.spec
    left = _side(join, "left", sides, references)
    right = _side(join, "right", sides, references)
    if left is None or right is None or ResourceRef("join", join.name) in references.waiting:
        return None
    copartitioning.check(join, left, right)
    channel = channel_of(join)
    common: dict[str, Any] = {
        "name": join.name,
        "type": spec.type,
        "spelling": Spelling(sides.result_key(join), left.serializers.value, right.serializers.value),
        "channel": channel,
        "log": channel_table(channel),
        "description": spec.description,
        "location": join.location,
    }
    if isinstance(left, RowSide):
        return _of_tables(join, left, right, common)
    return (
        _of_stream_and_table(join, left, right, common)
        if isinstance(right, RowSide)
        else _of_streams(join, left, right, common)
    )


def _of_tables(join: Declared[JoinSpec], left: RowSide, right: Side, common: dict[str, Any]) -> JoinPlan:
    common |= {"left": left.name, "right": right.name, "result": delta_name(join.name), "select": _select(join)}
    extractor, columns = _extractor(join)
    if extractor is None:
        return SameKeyJoinPlan(**common)
    subscriptions = subscriptions_table(join.name)
    return ForeignKeyJoinPlan(**common, extractor=extractor, picked=columns, subscriptions=subscriptions)


def _of_stream_and_table(
    join: Declared[JoinSpec], left: RecordSide, right: RowSide, common: dict[str, Any]
) -> JoinPlan:
    spec = join.spec
    common |= {"left": left.plan, "right": right.name}
    if spec.right_extractor is not None:
        extractor = _snippet(join, spec.right_extractor, "rightExtractor")
        return RightForeignKeyJoinPlan(**common, extractor=extractor, index=index_table(join.name))
    return StreamTableJoinPlan(
        **common,
        mapper=_extractor(join)[0],
        is_global=right.is_global,
        pending=milliseconds(spec.pending.ttl) if spec.pending else None,
        waiting=waiting_table(join.name),
    )


def _of_streams(join: Declared[JoinSpec], left: RecordSide, right: RecordSide, common: dict[str, Any]) -> JoinPlan:
    window = join.spec.window
    if window is None:
        msg = f"join '{join.name}' of two streams has no window"
        raise ValueError(msg)
    return StreamStreamJoinPlan(
        **common,
        left=left.plan,
        right=right.plan,
        before=milliseconds(window.before),
        after=milliseconds(window.after),
        grace=milliseconds(window.grace),
        buffer=buffer_table(join.name),
    )


def _side(join: Declared[JoinSpec], side: str, sides: Sides, references: References) -> Side | None:
    """The left or right side; None if it is missing or cannot be a side."""
    ref = ResourceRef("join", join.name)
    table = join.spec.left_table if side == "left" else join.spec.right_table
    stream = join.spec.left_stream if side == "left" else join.spec.right_stream
    if stream is not None:
        return _stream(join, f"{side}Stream", stream, sides, references)
    role = f"{side}Table"
    location = join.source.locate_value("spec", role)
    if table is None or not references.rows(ref, role, table, location):
        return None
    declared = references.application.tables.get(table)
    if declared is not None and declared.spec.window:
        window = declared.source.locate("spec", "window")
        message = f"the {role} of join '{join.name}' has windows (at {window}): its rows have no key of their own"
        hint = "join a table without windows; an agent can write one from the values of the windows"
        references.report.error(location, message, hint)
    return sides.rows(table)


def _stream(
    join: Declared[JoinSpec], role: str, stream: StreamSide, sides: Sides, references: References
) -> RecordSide | None:
    ref = ResourceRef("join", join.name)
    writer = None
    if stream.channel is not None:
        writer = references.channel(ref, stream.channel, join.source.locate_value("spec", role, "channel"))
        if writer is None:
            return None
    repartition = join.spec.repartition.partitions if join.spec.repartition else None
    found = sides.records(stream, writer=writer, repartition=repartition)
    refuse_unspellable(join.source, ("spec", role), found, references)
    return found


def _select(join: Declared[JoinSpec]) -> SelectPlan | None:
    select = join.spec.select
    if select is None:
        return None
    function = None
    if select.python is not None:
        function = join.source.snippet(Code(python=select.python, entrypoint=select.entrypoint), "spec", "select")
    paths = tuple((name, path_of(path)) for name, path in (select.columns or {}).items())
    return SelectPlan(paths, function, select.declared)


def _extractor(join: Declared[JoinSpec]) -> tuple[Snippet | None, Picked | None]:
    """The function that returns the right table's key, if any, and the columns of the key if it consists of columns."""
    spec = join.spec
    if spec.extractor is not None:
        extractor = _snippet(join, spec.extractor, "extractor")
        return extractor, picked(extractor)
    if spec.column is None and spec.columns is None:
        return None, None
    columns = Picked.of_names(tuple(spec.columns or [spec.column or ""]), several=len(spec.columns or ()) > 1)
    return columns.function, columns


def _snippet(join: Declared[JoinSpec], code: Code, field: str) -> Snippet:
    return join.source.snippet(code, "spec", field)

"""Plans of joins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kaspr_delta.functions.column_paths import Picked, path_of, picked
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan import names
from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication, channel_of
from kaspr_delta.plan.builder.copartitioning import Copartitioning
from kaspr_delta.plan.builder.sides import Side, Sides
from kaspr_delta.plan.definition import joins as plans
from kaspr_delta.plan.definition.storage import StoragePlan
from kaspr_delta.plan.graph import graph_of, parts_in_order
from kaspr_delta.spec.durations import milliseconds
from kaspr_delta.spec.join import JoinSpec


def join_plans(sides: Sides, copartitioning: Copartitioning) -> tuple[plans.JoinPlan, ...]:
    """The plans of all joins that do not wait, sorted by name."""
    found = [_plan(join, sides, copartitioning) for join in _feeders_first(sides.references.application)]
    return tuple(sorted((plan for plan in found if plan is not None), key=lambda plan: plan.name))


def _feeders_first(application: DeclaredApplication) -> Iterator[Declared[JoinSpec]]:
    """The joins, each after the joins that it reads, so that it is known whether these wait."""
    writers = {channel_of(join): join.name for join in application.joins.values()}
    feeds: list[tuple[str, str]] = []
    for join in application.joins.values():
        spec = join.spec
        tables = (name for name in (spec.left_table, spec.right_table) if name in application.joins)
        streams = (writers.get(side.channel or "") for side in (spec.left_stream, spec.right_stream) if side)
        feeds += [(read, join.name) for read in (*tables, *streams) if read]
    # Joins that read one another in a circle may come in any order.
    for together in parts_in_order(graph_of(feeds, sorted(application.joins))):
        yield from (application.joins[name] for name in together)


def _plan(join: Declared[JoinSpec], sides: Sides, copartitioning: Copartitioning) -> plans.JoinPlan | None:
    spec, left, right = join.spec, _side(join, "left", sides), _side(join, "right", sides)
    if left is None or right is None or join.ref in sides.references.waiting:
        return None
    copartitioning.check(join, left, right)
    channel = channel_of(join)
    common: dict[str, Any] = {
        "name": join.name,
        "type": spec.type,
        "left": left.stream or left.name,
        "right": right.stream or right.name,
        "spelling": plans.Spelling(sides.result_key(join), left.serializers.value, right.serializers.value),
        "channel": channel,
        "log": names.channel_table(channel),
        "description": spec.description,
        "location": join.location,
        "storage": StoragePlan.of(spec.description, spec.storage, spec.select.types if spec.select else None),
    }
    extractor, columns = _extractor(join)
    if left.stream is None:
        common |= {"result": names.delta_name(join.name), "select": _select(join)}
        if extractor is None:
            return plans.SameKeyJoinPlan(**common)
        subscriptions = names.subscriptions_table(join.name)
        return plans.ForeignKeyJoinPlan(**common, extractor=extractor, picked=columns, subscriptions=subscriptions)
    if by := join.snippet("rightExtractor"):
        return plans.RightForeignKeyJoinPlan(**common, extractor=by, index=names.index_table(join.name))
    if right.stream is None:
        return plans.StreamTableJoinPlan(
            **common,
            mapper=extractor,
            is_global=right.is_global,
            pending=milliseconds(spec.pending.ttl) if spec.pending else None,
            waiting=names.waiting_table(join.name),
        )
    assert spec.window is not None  # noqa: S101  two streams have one
    return plans.StreamStreamJoinPlan(
        **common,
        before=milliseconds(spec.window.before),
        after=milliseconds(spec.window.after),
        grace=milliseconds(spec.window.grace),
        buffer=names.buffer_table(join.name),
    )


def _side(join: Declared[JoinSpec], side: str, sides: Sides) -> Side | None:
    """The left or right side; None if it is missing or cannot be a side."""
    table = join.spec.left_table if side == "left" else join.spec.right_table
    stream = join.spec.left_stream if side == "left" else join.spec.right_stream
    if stream is not None:
        repartition = join.spec.repartition.partitions if join.spec.repartition else None
        return sides.records(join, f"{side}Stream", stream, repartition)
    if table is None or not sides.references.rows(join, table, f"{side}Table"):
        return None
    return sides.rows(table)


def _select(join: Declared[JoinSpec]) -> plans.SelectPlan | None:
    select = join.spec.select
    if select is None:
        return None
    paths = tuple((name, path_of(path)) for name, path in (select.columns or {}).items())
    return plans.SelectPlan(paths, join.snippet("select"), select.declared)


def _extractor(join: Declared[JoinSpec]) -> tuple[Snippet | None, Picked | None]:
    """The function that returns the right table's key, if any, and the columns of the key if it consists of columns."""
    if extractor := join.snippet("extractor"):
        return extractor, picked(extractor)
    spec = join.spec
    if spec.column is None and spec.columns is None:
        return None, None
    columns = Picked.of_names(tuple(spec.columns or [spec.column or ""]), several=len(spec.columns or ()) > 1)
    return columns.function, columns

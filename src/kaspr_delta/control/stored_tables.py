"""Stored tables whose columns or key are not those of their manifests: their resources wait, with the remedy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef, TablePlan
from kaspr_delta.plan.definition.typed_tables import changed_columns
from kaspr_delta.spec.ddl import Column, Type, columns_of
from kaspr_delta.storage.layout import KEY, WRITTEN_AT, Layout, key_text
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.readable import read_errors, reason_of
from kaspr_delta.storage.plan_tables import layout_of
from kaspr_delta.storage.stored_results import is_result, problems_of

_OF_PLAIN = {"key", "value", "window_start"}


def resources_with_tables(plan: Plan) -> Iterator[TablePlan | TableTableJoinPlan]:
    """The tables, without those of others, and the joins of tables: the resources whose stored columns must fit."""
    yield from (table for table in plan.tables if not table.is_foreign)
    yield from (join for join in plan.joins if isinstance(join, TableTableJoinPlan))


def is_plain(plan: Plan, resource: TablePlan | TableTableJoinPlan) -> bool:
    """Whether only the table that people read is looked at: its rows are JSON text or bytes, and so are its columns.

    Of such a join it may have the columns of an earlier ``select``, and its channel has none.
    """
    if isinstance(resource, TablePlan):
        return resource.typed is None
    return not resource.select and not any(side.has_types for side in plan.sides_of(resource))


def read_table(resource: TablePlan | TableTableJoinPlan) -> str:
    """The table of a resource that people read."""
    return resource.delta_name if isinstance(resource, TablePlan) else resource.result


def misfits(
    resource: TablePlan | TableTableJoinPlan, has: Sequence[Column], wanted: Sequence[Column]
) -> tuple[list[tuple[tuple[str, ...], Type]], list[str]]:
    """The columns to add to a table of a resource, and the differences that added columns cannot solve.

    None are added to a table of JSON text or bytes. Of its columns those that tell its kind count: only a table with
    windows has ``window_start``, and only one with columns of its own has the time in a column of another name.
    """
    plain = isinstance(resource, TablePlan) and resource.typed is None
    before, now = (
        Type("STRUCT", fields=tuple(one for one in side if not plain or one.name in _OF_PLAIN))
        for side in (has, wanted)
    )
    added, problems = changed_columns(before, now)
    if not plain:
        return added, problems
    if any(one.name == WRITTEN_AT for one in has):
        problems.append("it has columns of its own")
    return [], [*problems, *(f"column '{'.'.join(path)}' is missing" for path, _ in added)]


def is_replaced(
    plan: Plan,
    resource: TablePlan | TableTableJoinPlan,
    table: str,
    has: Collection[Column],
    columns: Callable[[str], Collection[Column]],
) -> bool:
    """Whether a rebuild makes a table with these columns anew: the result of a join whose channel fits its definition.

    ``columns`` are those of a table.
    """
    if isinstance(resource, TablePlan) or table != resource.result or not is_result(has):
        return False
    layout = layout_of(plan, resource.ref, resource.log)
    wanted = {column.name for column in columns_of(layout.columns)}
    return not problems_of([column for column in columns(resource.log) if column.name in wanted], layout)


def other_key(layout: Layout, stored: str | None) -> list[str]:
    """The difference of a typed table's key: by another one it may have fewer rows. Older tables do not name theirs."""
    wanted = layout.named_key
    if wanted is None or stored is None or stored == wanted:
        return []
    return [f"its key was {key_text(stored)} and is {key_text(wanted)}"]


def with_remedy(ref: ResourceRef, reasons: Iterable[str]) -> str:
    """The reason for which a resource with other stored tables waits."""
    return (
        f"{'; '.join(dict.fromkeys(reasons))}: change it back, or make the {ref.kind} anew with"
        f" `kaspr-delta delete {ref.kind} {ref.name} --purge`"
    )


def stored_misfits(delta: DeltaRs, plan: Plan) -> dict[ResourceRef, str]:
    """The tables in a folder, and the results of joins of JSON, that do not fit, with the reasons; as `run` finds them.

    Those that cannot be read are among them.
    """
    found: dict[ResourceRef, str] = {}
    for resource in resources_with_tables(plan):
        if not isinstance(resource, TablePlan) and not is_plain(plan, resource):
            continue
        name = read_table(resource)
        layout = layout_of(plan, resource.ref, name)
        try:
            looked = delta.columns_and_properties(name) if delta.has_folder(name) else None
            if looked is None:
                continue
            has, key = looked[0], looked[1].get(KEY)
            reasons = [*misfits(resource, has, columns_of(layout.columns))[1], *other_key(layout, key)]
            if reasons and not is_replaced(plan, resource, name, has, lambda channel: delta.types(channel) or ()):
                found[resource.ref] = with_remedy(resource.ref, reasons)
        except read_errors() as error:
            found[resource.ref] = f"its table '{name}' cannot be read: {reason_of(error)}"
    return found

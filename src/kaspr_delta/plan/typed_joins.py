"""Keys of typed tables that meet in a join: which fit, and which Spark computes without Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kaspr_delta.functions.column_paths import Path
from kaspr_delta.plan.application_plan import Plan
from kaspr_delta.plan.definition import TablePlan
from kaspr_delta.plan.join_plans import ForeignKeyJoinPlan, SameKeyJoinPlan, TableTableJoinPlan
from kaspr_delta.spec.column_types import KeyKind, key_kind
from kaspr_delta.spec.ddl import Type
from kaspr_delta.spec.near import suggestion

# Of these kinds a column makes the same JSON text as Python does, which is how keys in JSON are written.
_AS_IN_JSON = {"STRING", "CHAR", "VARCHAR", "TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN"}


def key_types(table: TablePlan) -> tuple[Type, ...]:
    """The types of a table's key columns; of a join's result those of its left side. Empty for keys in JSON."""
    if table.joined is not None:
        return key_types(table.joined[0])
    return table.typed.key_types if table.typed and table.typed.columns else ()


def at_path(row: Type, path: Path) -> Type | None:
    """The type of what is at the end of a path; None where there is nothing."""
    for name in path:
        row_fields = {column.name: column.type for column in row.fields}
        if name not in row_fields:
            return None
        row = row_fields[name]
    return row


def foreign_key_types(plan: Plan, join: ForeignKeyJoinPlan) -> tuple[Type, ...]:
    """The types of the columns that are the foreign key, where Spark can compute it; empty where Python has to."""
    left, right = plan.rows_of(join.left), plan.rows_of(join.right)
    if join.picked is None or left.row_type is None:
        return ()
    found = [at_path(left.row_type, path) for path in join.picked.paths]
    types = tuple(one for one in found if one is not None and key_kind(one) is not None)
    if len(types) < len(found):
        return ()
    if wanted := key_types(right):
        return types if _fit(types, wanted) and join.picked.several == (len(wanted) > 1) else ()
    return types if not join.picked.several and types[0].name in _AS_IN_JSON else ()


def type_problems(plan: Plan, join: TableTableJoinPlan) -> Iterator[tuple[str, str]]:
    """What cannot be joined by what is known of the columns, each with what to do."""
    left, right = plan.rows_of(join.left), plan.rows_of(join.right)
    if isinstance(join, SameKeyJoinPlan):
        own, other = key_types(left), key_types(right)
        if own and other and not _fit(own, other):
            yield _misfit(f"the key of '{join.left}'", own, join.right, other)
        return
    if join.picked is None or left.row_type is None:
        return
    found = [at_path(left.row_type, path) for path in join.picked.paths]
    for path, one in zip(join.picked.paths, found, strict=True):
        if one is None and join.picked.told:
            columns = [column.name for column in left.row_type.fields]
            yield f"'{join.left}' has no column '{'.'.join(path)}'", suggestion(path[0], columns, "its columns are")
        elif one is not None and key_kind(one) is None:
            yield f"column '{'.'.join(path)}' of '{join.left}' is {one}, which is no key", "join by another column"
    types = tuple(one for one in found if one is not None and key_kind(one) is not None)
    other = key_types(right)
    if len(types) == len(found) and other and not _fit(types, other):
        yield _misfit(f"{join.picked} of '{join.left}'", types, join.right, other)


def _fit(types: Sequence[Type], others: Sequence[Type]) -> bool:
    return _kinds(types) == _kinds(others)


def _kinds(types: Sequence[Type]) -> list[KeyKind | None]:
    return [key_kind(one) for one in types]


def _misfit(what: str, types: Sequence[Type], table: str, others: Sequence[Type]) -> tuple[str, str]:
    message = f"{what} is {_listed(types)}, and the key of '{table}' is {_listed(others)}: they are never equal"
    return message, "keys are compared by value: text with text, numbers with numbers, and so on, column by column"


def _listed(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types))

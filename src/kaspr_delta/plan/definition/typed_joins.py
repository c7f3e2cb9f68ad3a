"""Keys of typed tables in a join: which can be equal, and which Spark computes without Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from kaspr_delta.functions.column_paths import Part, Path, Text
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan, SameKeyJoinPlan, TableTableJoinPlan, at_path
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.spec.column_types import key_kind
from kaspr_delta.spec.ddl import Type
from kaspr_delta.spec.near import suggestion

# A value of one of these types has the same text in Python and in Spark.
_SAME_TEXT = {"STRING", "CHAR", "VARCHAR", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE"}
_STRING = Type("STRING")
# For a column of one of these types, Spark writes the same JSON text as Python, which writes the keys in JSON.
_AS_IN_JSON = {"STRING", "CHAR", "VARCHAR", "TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN"}


class Misfit(NamedTuple):
    """A reason why a join cannot run: the part of the join, the message and a hint."""

    part: Literal["key", "select"]
    message: str
    hint: str


def key_types(table: TablePlan) -> tuple[Type, ...]:
    """The types of a table's key columns; for a join's result, those of its left side. Empty for keys in JSON."""
    if table.joined is not None:
        return key_types(table.joined[0])
    return table.typed.key_types if table.typed and table.typed.columns else ()


def foreign_key_types(plan: Plan, join: ForeignKeyJoinPlan) -> tuple[Type, ...]:
    """The types of the foreign key's columns if Spark can compute the key; empty if Python has to."""
    left, right = plan.table_or_result(join.left), plan.table_or_result(join.right)
    if join.picked is None or left.row_type is None:
        return ()
    found = [_type_of(left.row_type, part) for part in join.picked.parts]
    types = tuple(one for one in found if one is not None and key_kind(one) is not None)
    if len(types) < len(found):
        return ()
    if wanted := key_types(right):
        if any(one.size and key_kind(one) == "text" for one in wanted):  # Python refuses text too long for a key
            return ()
        return types if _fit(types, wanted) and join.picked.several == (len(wanted) > 1) else ()
    return types if not join.picked.several and types[0].name in _AS_IN_JSON else ()


def type_problems(plan: Plan, join: TableTableJoinPlan) -> Iterator[Misfit]:
    """The keys that cannot be joined and the columns that cannot be selected, as far as columns are known."""
    left, right = plan.table_or_result(join.left), plan.table_or_result(join.right)
    yield from _select_problems(join, left, right)
    if isinstance(join, SameKeyJoinPlan):
        own, other = key_types(left), key_types(right)
        if own and other and not _fit(own, other):
            yield _misfit(f"the key of '{join.left}'", own, join.right, other)
        return
    if join.picked is None or left.row_type is None:
        return
    found = [_type_of(left.row_type, part) for part in join.picked.parts]
    for part, one in zip(join.picked.parts, found, strict=True):
        if isinstance(part, Text):
            continue
        if one is None and join.picked.declared and left.is_known:
            yield _no_column(join.left, left.row_type, part)
        elif one is not None and key_kind(one) is None:
            message = f"column '{'.'.join(part)}' of '{join.left}' is {one}, which is no key"
            yield Misfit("key", message, "join by another column")
    types = tuple(one for one in found if one is not None and key_kind(one) is not None)
    other = key_types(right)
    if len(types) == len(found) and other and not _fit(types, other):
        yield _misfit(f"{join.picked} of '{join.left}'", types, join.right, other)


def _select_problems(join: TableTableJoinPlan, left: TablePlan, right: TablePlan) -> Iterator[Misfit]:
    sides = {"left": left, "right": right}
    for name, path in join.select.paths if join.select else ():
        side, row = sides[path[0]], sides[path[0]].row_type
        if not side.is_known:
            continue
        if row is None and join.select and not join.select.declared:
            message = f"'{side.name}' does not tell the type of '{name}' ({'.'.join(path)}): its rows are JSON"
            yield Misfit("select", message, "add a `schema` with the types of all columns to `select`")
        elif row is not None and at_path(row, path[1:]) is None:
            yield _no_column(side.name, row, path[1:])._replace(part="select")


def _type_of(row: Type, part: Part) -> Type | None:
    """The type of a part of a key; None if it is unknown, or is text that Spark would not write as Python does."""
    if not isinstance(part, Text):
        return at_path(row, part)
    for path, strict in part.columns:
        found = at_path(row, path)
        if found is None or found.name not in _SAME_TEXT or (strict and key_kind(found) != "text"):
            return None
    return _STRING


def _fit(types: Sequence[Type], others: Sequence[Type]) -> bool:
    return [*map(key_kind, types)] == [*map(key_kind, others)]


def _no_column(table: str, row: Type, path: Path) -> Misfit:
    columns = [column.name for column in row.fields]
    hint = "" if path[0] in columns else suggestion(path[0], columns, "its columns are")
    return Misfit("key", f"'{table}' has no column '{'.'.join(path)}'", hint)


def _misfit(what: str, types: Sequence[Type], table: str, others: Sequence[Type]) -> Misfit:
    own, other = (", ".join(map(str, one)) for one in (types, others))
    message = f"{what} is {own}, and the key of '{table}' is {other}: they are never equal"
    hint = "keys are compared by value: text with text, numbers with numbers, and so on, column by column"
    return Misfit("key", message, hint)

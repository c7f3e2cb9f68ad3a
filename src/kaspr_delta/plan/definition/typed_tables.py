"""Tables whose rows have columns of their own, not a key and a JSON value."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kaspr_delta.functions.column_paths import Path
from kaspr_delta.spec.ddl import Column, Type


def changed_columns(has: Type, wanted: Type, path: Path = ()) -> tuple[list[tuple[Path, Type]], list[str]]:
    """The columns to add to type ``has`` to become ``wanted``, by their paths, and the differences that remain.

    These are sentences: a column is gone, or has another type.
    """
    if has == wanted:
        return [], []
    if has.name != "STRUCT" or wanted.name != "STRUCT":
        return [], [f"column '{'.'.join(path)}' was {has} and is {wanted}"]
    added: list[tuple[Path, Type]] = []
    before, now = ({column.name: column.type for column in one.fields} for one in (has, wanted))
    differences = [f"column '{'.'.join((*path, gone))}' is gone" for gone in before if gone not in now]
    for column, kind in now.items():
        if column not in before:
            added.append(((*path, column), kind))
            continue
        more, problems = changed_columns(before[column], kind, (*path, column))
        added += more
        differences += problems
    return added, differences


def arranged(of: Type, like: Type | None) -> Type:
    """A type with the fields of its STRUCTs in the order of ``like``; fields that ``like`` does not have come last.

    >>> from kaspr_delta.spec.ddl import columns_of
    >>> texts = "c INT, b INT, a INT", "a INT, gone INT, b INT"
    >>> str(arranged(*(Type("STRUCT", fields=columns_of(text)) for text in texts)))
    'STRUCT<`a`: INT, `b`: INT, `c`: INT>'
    """
    if like is None or like.name != of.name:
        return of
    if of.inner:
        return replace(of, inner=tuple(map(arranged, of.inner, like.inner)))
    has, order = {one.name: one for one in of.fields}, {one.name: one.type for one in like.fields}
    names = dict.fromkeys([*(name for name in order if name in has), *has])
    return replace(of, fields=tuple(Column(name, arranged(has[name].type, order.get(name))) for name in names))


@dataclass(frozen=True, slots=True)
class TypedPlan:
    """The columns of a table, including those of the key.

    With a ``source`` the rows are those of a Delta table that others write. ``source`` is its name in the catalog, or
    its path or URI. Its columns are known once the table was looked at.
    """

    key: tuple[str, ...]
    columns: tuple[Column, ...]
    source: str | None = None

    @property
    def row(self) -> Type:
        """The type of a row: a STRUCT of all columns."""
        return Type("STRUCT", fields=self.columns)

    @property
    def key_types(self) -> tuple[Type, ...]:
        """The types of the key columns, in their order."""
        types = {column.name: column.type for column in self.columns}
        return tuple(types[name] for name in self.key)

    @property
    def rest(self) -> tuple[Column, ...]:
        """The columns outside the key."""
        return tuple(column for column in self.columns if column.name not in self.key)

"""The types that columns of tables may have, and the types that make a key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import starmap
from typing import Annotated, Literal

from kaspr_delta.spec.base import Problem, Text, checked
from kaspr_delta.spec.ddl import Column, Type, columns_of, names_in
from kaspr_delta.spec.near import suggestion

KeyKind = Literal["text", "number", "boolean", "date", "time", "local time", "bytes"]
"""The kinds of keys. Keys of one kind are compared by value, whatever their types; keys of two kinds never match."""

_KINDS: dict[str, KeyKind] = {
    **dict.fromkeys(("STRING", "CHAR", "VARCHAR"), "text"),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL"), "number"),
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "time",
    "TIMESTAMP_NTZ": "local time",
    "BINARY": "bytes",
}


# Types of columns that make no key.
_OTHERS = {"FLOAT", "DOUBLE", "ARRAY", "MAP", "STRUCT"}
_MAP_KEYS = {"STRING", "TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN"}
# The columns of Delta's change data feed, and the column that this package adds to the author's.
_RESERVED = {"_change_type", "_commit_version", "_commit_timestamp", "_timestamp"}
_RENAME = "give it another name"


def key_kind(of: Type) -> KeyKind | None:
    """The kind of key that a column of that type makes; None for types that make none.

    Floating point makes none: its fractions are rarely what they seem.
    """
    return _KINDS.get(of.name)


def column_problems(columns: tuple[Column, ...], *, written: bool) -> Iterator[tuple[str, str]]:
    """The problems with columns, each with a hint. Columns that are ``written`` here are made from JSON."""
    names = [column.name for column in columns]
    yield from name_problems(names, written=written)
    yield from unwritable_names(name for name in names_in(columns) if name not in names)
    for column in columns:
        for part in column.type.parts():
            if part.name not in _KINDS and part.name not in _OTHERS:
                yield f"column '{column.name}' is {column.type}, and {part.name} cannot be joined", "leave it out"
            elif written and part.name in {"CHAR", "VARCHAR"}:
                yield f"column '{column.name}' is {column.type}: Spark has no {part.name} but in tables", "use `STRING`"
            elif part.name == "MAP" and part.inner[0].name not in ({"STRING"} if written else _MAP_KEYS):
                hint = "use `MAP<STRING, …>`" if written else "leave it out"
                yield f"column '{column.name}' has a map with keys of type {part.inner[0]}", hint


def _unreadable(schema: str) -> Iterator[Problem]:
    try:
        columns_of(schema)
    except ValueError as error:
        hint = "for example `schema: order_id STRING, price DECIMAL(10, 2)`"
        yield Problem(f"'schema' cannot be read: {error}", hint)


Schema = Annotated[Text, checked(_unreadable)]
"""Columns in Spark's DDL."""

TableSchema = Annotated[
    Schema, checked(lambda schema: starmap(Problem, column_problems(columns_of(schema), written=True)))
]
"""Columns of a table that is written here."""


def name_problems(names: Collection[str], *, written: bool) -> Iterator[tuple[str, str]]:
    """The problems with names of columns, each with a hint."""
    alike = Counter(name.lower() for name in names)
    for name in names:
        if alike[name.lower()] > 1:
            yield f"column '{name}' stands there twice: Delta takes capitals for small letters", _RENAME
        elif name.lower() in _RESERVED:
            yield f"column '{name}' has a name that Delta or this package uses", _RENAME
        elif written and "`" in name:  # a MERGE into a table with a change data feed fails
            yield f"column '{name}' has a backtick in its name, with which Delta cannot change rows", _RENAME
    yield from unwritable_names(names)


def unwritable_names(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The names of columns, or of fields of columns, that no statement of Spark can hold, each with a hint."""
    for name in names:
        if "${" in name:  # also inside backticks
            yield f"column '{name}' has ${{ in its name, which Spark takes for a variable", _RENAME


def key_problems(columns: tuple[Column, ...], key: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The problems with the columns of a key, each with a hint."""
    types = {column.name: column.type for column in columns}
    for name in key:
        if name not in types:
            yield f"there is no column '{name}'", suggestion(name, types, "the columns are")
        elif key_kind(types[name]) is None:
            hint = "a key is text, a whole number, a DECIMAL, BOOLEAN, DATE, TIMESTAMP or BINARY"
            yield f"column '{name}' is {types[name]}, which is no key", hint

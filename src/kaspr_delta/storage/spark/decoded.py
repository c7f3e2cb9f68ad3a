"""JSON text columns as typed columns for people; the types are inferred from the rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

# The tokens of a type but for colons and commas: names of fields and types alternate.
_TOKEN = re.compile(r"`(?:[^`]|``)*`|\w+(?:\(\d+,\s*\d+\))?|[<>]")
# Fractions, which Python wrote as doubles.
_FRACTION = re.compile(r"DECIMAL\(\d+,\s*[1-9]\d*\)")


def decoded(rows: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """Replace columns of JSON text by typed ones; a field whose type differs between rows is a VARIANT.

    Text that is not JSON is null.
    """
    if not columns:
        return rows
    types = rows.agg(*(F.schema_of_variant_agg(F.try_parse_json(column)).alias(column) for column in columns)).first()
    if types is None:
        return rows
    return rows.withColumns({column: _typed(column, types[column]) for column in columns})


def _typed(column: str, inferred: str | None):  # type: ignore[no-untyped-def]  # noqa: ANN202
    kind = None if inferred is None else column_type(inferred)
    if kind is None:
        return F.col(column)
    value = F.try_parse_json(column)
    return value if kind == "VARIANT" else F.try_variant_get(value, "$", kind)


def column_type(inferred: str) -> str | None:
    """The type of a column for all values of a type that ``schema_of_variant_agg`` inferred; None where all are null.

    Fractions are doubles, what was always null is text. An object becomes a struct, or stays a VARIANT where no struct
    has its fields: without any, or with names that differ in nothing but their case.

    >>> column_type("OBJECT<`a b`: DECIMAL(2,1), c: ARRAY<VOID>, d: VARIANT>")
    'STRUCT<`a b`: DOUBLE, `c`: ARRAY<STRING>, `d`: VARIANT>'
    """
    return None if inferred == "VOID" else _type(iter(_TOKEN.findall(inferred)))


def _type(tokens: Iterator[str]) -> str:
    """Read one type."""
    name = next(tokens)
    if name == "ARRAY":
        next(tokens)  # <
        element = _type(tokens)
        next(tokens)  # >
        return f"ARRAY<{element}>"
    if name == "OBJECT":
        next(tokens)  # <
        fields = iter(lambda: next(tokens), ">")
        return _struct([(field if field.startswith("`") else f"`{field}`", _type(tokens)) for field in fields])
    if name == "VOID":  # no column can have it
        return "STRING"
    return "DOUBLE" if _FRACTION.fullmatch(name) else name


def _struct(fields: list[tuple[str, str]]) -> str:
    names = {name.lower() for name, _ in fields}
    if not fields or len(names) < len(fields):
        return "VARIANT"
    return f"STRUCT<{', '.join(f'{name}: {kind}' for name, kind in fields)}>"

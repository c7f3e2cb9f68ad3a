"""Keys and rows of typed tables as JSON text, and back: the text that Python functions see (``serde.typed_text``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.value_functions import base64_of, bytes_of
from kaspr_delta.serde.typed_values import SPARK_FORMATS
from kaspr_delta.spec.column_types import key_kind
from kaspr_delta.spec.ddl import Type

# The escapes of JSON for control characters; others are escaped by their number.
_ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}


def key_text(columns: Sequence[Column], types: Sequence[Type]) -> Column:
    """The key in some columns as canonical JSON text; NULL if one of them is NULL."""
    parts = [_scalar_text(column, one) for column, one in zip(columns, types, strict=True)]
    if len(parts) == 1:
        return parts[0]
    return F.concat(F.lit("["), parts[0], *(F.concat(F.lit(","), part) for part in parts[1:]), F.lit("]"))


def row_text(row: Column) -> Column:
    """A STRUCT as JSON text with every column; NULL for NULL."""
    return F.to_json(row, {**SPARK_FORMATS, "ignoreNullFields": "false"})


def row_hash(row: Column) -> Column:
    """The hash of a row. A column that is added later and is NULL does not change it."""
    return F.md5(F.to_json(row, SPARK_FORMATS))


def by_name(column: Column, has: Type, wanted: Type) -> Column:
    """A value whose STRUCTs have their fields in the order of the wanted type, matched by name."""
    if has == wanted or has.name != wanted.name:
        return column
    if wanted.name == "ARRAY":
        return F.transform(column, lambda one: by_name(one, has.inner[0], wanted.inner[0]))
    if wanted.name == "MAP":
        return F.transform_values(column, lambda _, one: by_name(one, has.inner[1], wanted.inner[1]))
    types = {one.name: one.type for one in has.fields}
    fields = (by_name(column[one.name], types[one.name], one.type).alias(one.name) for one in wanted.fields)
    return F.when(column.isNotNull(), F.struct(*fields))


def as_text(joined: DataFrame, types: tuple[Type | None, Type | None]) -> DataFrame:
    """Rows of a channel or result with left and right as text; ``types`` are theirs, None where they are text."""
    sides = {side: row_text(F.col(side)) for side, of in zip(("left", "right"), types, strict=True) if of is not None}
    return joined.withColumns(sides) if sides else joined


def row_of(text: Column, of: Type) -> Column:
    """A STRUCT of JSON text as ``row_text`` writes it."""
    return F.from_json(text, ", ".join(map(str, of.fields)), SPARK_FORMATS)


def comparable(value: Column, of: Type | None) -> Column:
    """A comparable form of a value. Spark compares no maps, so they become lists of entries, the least key first."""
    if of is None or not any(part.name == "MAP" for part in of.parts()):
        return value
    if of.name == "STRUCT":
        fields = (comparable(value[column.name], column.type).alias(column.name) for column in of.fields)
        return F.when(value.isNotNull(), F.struct(*fields))
    if of.name == "ARRAY":
        return F.transform(value, lambda item: comparable(item, of.inner[0]))
    entries = F.transform(
        F.map_entries(value),
        lambda entry: F.struct(entry["key"], comparable(entry["value"], of.inner[1]).alias("value")),
    )
    return F.array_sort(entries)


def key_columns(text: Column, types: Sequence[Type]) -> list[Column]:
    """The columns of a key of JSON text as ``key_text`` writes it."""
    parsed = F.try_parse_json(text)
    paths = [f"$[{n}]" for n in range(len(types))] if len(types) > 1 else ["$"]
    return [_of_variant(parsed, path, one) for path, one in zip(paths, types, strict=True)]


def _scalar_text(column: Column, of: Type) -> Column:
    match key_kind(of):
        case "text":
            return _quoted_text(column)
        case "number" if of.name == "DECIMAL":
            # A cast gives an exponent in sessions without ANSI.
            scale = of.size[1]
            return F.call_function("format_number", column, F.lit(f"0.{'#' * scale}" if scale else "0"))
        case "number" | "boolean":
            return column.cast("string")
        case "bytes":
            return F.concat(F.lit('"'), base64_of(column), F.lit('"'))
        case "date" | "time" | "local time":
            # Written as a field of an object: the same writer as for values.
            written = F.to_json(F.struct(column.alias("k")), SPARK_FORMATS)
            return F.when(column.isNotNull(), F.substring(written, 6, 64).substr(F.lit(1), F.length(written) - 6))
        case None:
            msg = f"{of} makes no key"
            raise ValueError(msg)


def _quoted_text(column: Column) -> Column:
    """Text as JSON, exactly as Python writes it: Spark writes some control characters in another case."""
    escaped = F.replace(F.replace(column, F.lit("\\"), F.lit("\\\\")), F.lit('"'), F.lit('\\"'))
    controls = {chr(code): _ESCAPES.get(code, f"\\u{code:04x}") for code in range(32)}
    rare = reduce(lambda text, one: F.replace(text, F.lit(one[0]), F.lit(one[1])), controls.items(), escaped)
    return F.concat(F.lit('"'), F.when(column.rlike("[\\x00-\\x1f]"), rare).otherwise(escaped), F.lit('"'))


def _of_variant(parsed: Column, path: str, of: Type) -> Column:
    if of.name == "BINARY":
        return bytes_of(F.try_variant_get(parsed, path, "STRING"))
    return F.try_variant_get(parsed, path, str(of))

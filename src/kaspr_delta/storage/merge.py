"""Bringing rows of a table to a given state, as a MERGE of Spark's says it."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.sql_text import literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType


@dataclass(frozen=True, slots=True)
class Upsert:
    """Rows to bring to a given state: one for each value of ``on``, deleted where ``keep`` is false.

    Rows are equal when the columns in ``compare`` are; those in ``also`` change with them only.
    """

    on: tuple[str, ...]
    compare: tuple[str, ...]
    also: tuple[str, ...]
    keep: str

    @property
    def changed(self) -> tuple[str, ...]:
        """The columns that an update sets."""
        return *self.compare, *self.also

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that an insert gives."""
        return *self.on, *self.changed


@dataclass(frozen=True, slots=True)
class Merged:
    """What bringing rows of a table to a given state did to it: rows that changed, and what that took.

    ``copied`` are rows that only stood in a file with one that changed, ``rewritten`` such files: told of tables on
    this machine's disk, elsewhere 0.
    """

    rows: int
    copied: int = 0
    rewritten: int = 0


def as_stored(rows: DataFrame, table: StructType) -> DataFrame:
    """Rows whose STRUCTs have their fields in the order in which a table has them: MERGE compares them by position.

    Rows with other fields than the table stay as they are: Spark says what is wrong with them.
    """
    from pyspark.sql.types import StructType

    has = {field.name: field for field in table.fields}
    wanted = StructType([has.get(field.name, field) for field in rows.schema.fields])
    moved = [
        one.name
        for one, other in zip(rows.schema.fields, wanted.fields, strict=True)
        if one.dataType != other.dataType and _by_name(one.dataType) == _by_name(other.dataType)
    ]
    fields = [has[field.name] if field.name in moved else field for field in rows.schema.fields]
    return rows.to(StructType(fields)) if moved else rows


def _by_name(kind: DataType) -> Any:
    """What two types have in common that differ in the order of fields alone."""
    return _sorted(json.loads(kind.json()))


def _sorted(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return sorted((field["name"], str(_sorted(field["type"]))) for field in kind["fields"])
    return {
        name: _sorted(part) for name, part in kind.items() if name in {"type", "elementType", "keyType", "valueType"}
    }


def merge_statement(rows: DataFrame, identifier: str, how: Upsert, among: Collection[str]) -> str:
    """The MERGE of rows, ``{rows}`` in it; ``among``: see ``Delta.upsert``."""
    different = " OR ".join(_different(rows, name) for name in how.compare) or "false"
    names = ", ".join(map(quoted, how.columns))
    values = ", ".join(f"s.{quoted(name)}" for name in how.columns)
    same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in how.on)
    if among:
        # `sql` would take braces in it for names of data frames.
        listed = ", ".join(map(literal, among)).replace("{", "{{").replace("}", "}}")
        same += f" AND t.{quoted(how.on[0])} IN ({listed})"
    assignments = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in how.changed)
    keep = f"s.{quoted(how.keep)}"
    return (
        f"MERGE INTO {identifier} t USING {{rows}} s ON {same}"
        f" WHEN MATCHED AND NOT {keep} THEN DELETE"
        f" WHEN MATCHED AND ({different}) THEN UPDATE SET {assignments}"
        f" WHEN NOT MATCHED AND {keep} THEN INSERT ({names}) VALUES ({values})"
    )


def _different(rows: DataFrame, column: str) -> str:
    """The condition that a column is another in `t` and `s`. Maps are compared as text: Spark compares none."""
    name, compared = quoted(column), "{}"
    if '"type":"map"' in rows.schema[column].dataType.json():
        compared = "to_json({})"
    return f"NOT ({compared.format(f't.{name}')} <=> {compared.format(f's.{name}')})"

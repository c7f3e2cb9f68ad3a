"""The MERGE statement of an upsert, and rows in the form that it needs."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from kaspr_delta.plan.definition.typed_tables import arranged
from kaspr_delta.spec.ddl import columns_of_json, quoted
from kaspr_delta.storage.dialect import SPARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from kaspr_delta.storage.tables import Upsert


# The types whose values are compared as JSON, in the JSON of a type.
_BY_JSON = re.compile('"(map|float|double)"')


def as_stored(rows: DataFrame, table: StructType) -> DataFrame:
    """Order the fields of STRUCTs as the table does: MERGE compares them by position.

    Rows with other fields than the table are returned unchanged; Spark reports the difference.
    """
    from pyspark.sql.types import StructType

    given, stored = (
        {column.name: column.type for column in columns_of_json(schema.jsonValue()["fields"])}
        for schema in (rows.schema, table)
    )
    moved = {name for name, has in given.items() if has != (like := stored.get(name)) and arranged(has, like) == like}
    fields = [table[field.name] if field.name in moved else field for field in rows.schema.fields]
    return rows.to(StructType(fields)) if moved else rows


def merge_statement(rows: DataFrame, identifier: str, how: Upsert, keys: Collection[str]) -> str:
    """The MERGE of rows, which the statement calls ``{rows}``.

    ``keys`` are all values of the first column of ``on``, or none: with them Delta skips files that have none of them.
    """
    different = " OR ".join(_different(rows, name) for name in how.compare) or "false"
    names = ", ".join(map(quoted, how.columns))
    values = ", ".join(f"s.{quoted(name)}" for name in how.columns)
    same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in how.on)
    if keys:
        same += f" AND t.{quoted(how.on[0])} IN {SPARK.texts(keys)}"
    assignments = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in how.changed)
    keep = f"s.{quoted(how.keep)}"
    clauses = (
        f"{same} WHEN MATCHED AND NOT {keep} THEN DELETE"
        f" WHEN MATCHED AND ({different}) THEN UPDATE SET {assignments}"
        f" WHEN NOT MATCHED AND {keep} THEN INSERT ({names}) VALUES ({values})"
    )
    # `sql` would take braces in them for names of data frames.
    return f"MERGE INTO {identifier} t USING {{rows}} s ON {clauses.replace('{', '{{').replace('}', '}}')}"


def _different(rows: DataFrame, column: str) -> str:
    """The condition that a column differs between `t` and `s`.

    Spark does not compare maps, and takes -0.0 for 0.0: their JSON is compared.
    """
    name, compared = quoted(column), "{}"
    if _BY_JSON.search(rows.schema[column].dataType.json()):
        compared = "to_json(named_struct('v', {}))"
    return f"NOT ({compared.format(f't.{name}')} <=> {compared.format(f's.{name}')})"

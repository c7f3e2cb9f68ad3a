"""Bringing rows of a table to a given state, as a MERGE of Spark's says it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.sql_text import literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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

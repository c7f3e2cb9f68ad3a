"""The system's own tables, which are small: the registry, topics, progress, events and dead letters."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import SYSTEM
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SystemTables(Protocol):
    """The tables whose names start with ``_kaspr``."""

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table; none where it does not exist."""

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        """The rows of a SELECT over any Delta table, which it calls ``t``; none where it does not exist."""

    def replace(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Replace all rows by these, which have their values in the order of the table's columns."""

    def append(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Append rows."""

    def version(self, table: str) -> int | None:
        """The newest version of a table; None where it does not exist."""

    def alone(self, table: str) -> contextlib.AbstractContextManager[object]:
        """A lock to hold while a table is read in order to write it."""


def arrow_rows(table: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows of a system table as Arrow, given their values in the order of the table's columns."""
    schema = arrow_schema(SYSTEM[table].columns)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema)


@dataclass(frozen=True, slots=True)
class SessionSystemTables:
    """Implements SystemTables with a session. The tables must exist."""

    spark: SparkSession
    tables: Tables

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.tables.query(self.spark, table, "SELECT * FROM t")

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        return self.tables.query(self.spark, table, sql) if self.tables.exists(self.spark, table) else []

    def replace(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.tables.replace(self.spark, arrow_rows(table, rows), table)

    def append(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.tables.append(self.spark, arrow_rows(table, rows), table)

    def version(self, table: str) -> int | None:
        return self.tables.newest(self.spark, table).version

    def alone(self, table: str) -> contextlib.AbstractContextManager[object]:
        return self.tables.namespace.table_group_lock(table)

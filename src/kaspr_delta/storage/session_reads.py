"""Reads of the rows of tables by key with a Spark session, wherever the tables are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaspr_delta.serde.typed_values import from_columns
from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.arrow_types import collected
from kaspr_delta.storage.native.page_reads import NativePageReads
from kaspr_delta.storage.opening import folder_tables
from kaspr_delta.storage.page_reads import Columns, RowReads
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SessionRowReads(RowReads):
    """Implements RowReads."""

    spark: SparkSession
    tables: Tables

    def named(self, table: str, version: int | None = None) -> str:
        at = "" if version is None else f" VERSION AS OF {version}"
        return f"{self.tables.namespace.identifier(table)}{at}"

    def columns(self, table: str, version: int | None = None) -> dict[str, Type]:  # noqa: ARG002  they are the newest
        if not self.tables.exists(self.spark, table):
            return {}
        return {column.name: column.type for column in self.tables.columns(self.spark, table)}

    def selected(self, table: str, version: int | None, columns: Columns, sql: str) -> list[dict[str, Any]]:  # noqa: ARG002
        rows = collected(self.spark.sql(sql)).to_pylist()
        return [{name: from_columns(kind, row.get(name)) for name, kind in columns.items()} for row in rows]


def row_reads(spark: SparkSession, tables: Tables) -> RowReads:
    """Reads of rows by key: in a folder without the session, which a catalog needs."""
    local = folder_tables(tables.namespace)
    return SessionRowReads(spark, tables) if local is None else NativePageReads(local)

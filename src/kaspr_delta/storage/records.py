"""Reads and writes of a retry of dead letters: the contract, and how Spark keeps it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

from kaspr_delta.storage.page_reads import Columns, SystemReads
from kaspr_delta.storage.spark.frames import collected
from kaspr_delta.storage.spark.sql_text import literal, value_literal
from kaspr_delta.storage.system_tables import SessionSystemTables, SystemTables
from kaspr_delta.storage.tables import Tables, Transaction, Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RowsByName = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows by the name of the transaction that appends them. A column that a row does not name is null."""


class Records(Protocol):
    """Reads and writes of topics, channels and dead letters. A table that does not exist is empty."""

    many_transactions: ClassVar[bool]
    """Whether one commit carries several transactions: rows of some may be there already, and those of others not."""

    @property
    def system(self) -> SystemTables:
        """The system's own tables."""

    @staticmethod
    def value(value: Value) -> str:
        """A value in a condition."""

    def rows(self, table: str, columns: Sequence[str], condition: str) -> list[dict[str, Any]]:
        """Columns of the rows for which a SQL condition holds."""

    def append_once(self, table: str, rows: Callable[[], RowsByName]) -> int:
        """Append rows in one commit, and return their number. A transaction that the table has appends nothing again.

        ``rows`` is called while the table's commit lock is held, if it has one.
        """

    def delete(self, table: str, condition: str) -> None:
        """Delete the rows for which a SQL condition holds, in one commit."""


@dataclass(frozen=True)
class SessionRecords(SystemReads):
    """Implements Records, and SystemReads, with a session. Delta keeps one transaction for each commit of Spark."""

    spark: SparkSession
    tables: Tables

    many_transactions: ClassVar[bool] = False
    literal = staticmethod(literal)

    @staticmethod
    def value(value: Value) -> str:
        return value_literal(value)

    @property
    def system(self) -> SystemTables:
        return SessionSystemTables(self.spark, self.tables)

    def system_rows(self, table: str, clauses: str) -> list[dict[str, Any]]:
        return self.tables.query(self.spark, table, f"SELECT * FROM t {clauses}")

    def named(self, table: str, version: int | None = None) -> str:
        at = "" if version is None else f" VERSION AS OF {version}"
        return f"{self.tables.namespace.identifier(table)}{at}"

    def selected(self, table: str, version: int | None, columns: Columns, sql: str) -> list[dict[str, Any]]:  # noqa: ARG002
        rows: list[dict[str, Any]] = collected(self.spark.sql(sql).select(*columns)).to_pylist()
        return rows

    def rows(self, table: str, columns: Sequence[str], condition: str) -> list[dict[str, Any]]:
        found = self.tables.read(self.spark, table).where(condition).select(*columns)
        rows: list[dict[str, Any]] = collected(found).to_pylist()
        return rows

    def append_once(self, table: str, rows: Callable[[], RowsByName]) -> int:
        parts = rows()
        everything = [row for part in parts.values() for row in part]
        if everything:
            schema = collected(self.tables.read(self.spark, table).limit(0)).schema
            transaction = Transaction(hashlib.sha256(" ".join(sorted(parts)).encode()).hexdigest()[:32], 1)
            self.tables.append(self.spark, pa.Table.from_pylist(everything, schema), table, transaction)
        return len(everything)

    def delete(self, table: str, condition: str) -> None:
        self.tables.delete(self.spark, table, condition)

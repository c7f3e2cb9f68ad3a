"""The system's own tables, which are small, and the topics and channels from which dead letters are retried.

The system's tables are the registry, topics, progress, events and dead letters.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.arrow_types import arrow_schema, batch_of, collected
from kaspr_delta.storage.dialect import SPARK, Dialect
from kaspr_delta.storage.layout import SYSTEM, TOPICS
from kaspr_delta.storage.tables import Tables, Transaction, Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RowsByName = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows by the name of the transaction that appends them. A column that a row does not name is null."""


class SystemTables(Protocol):
    """The tables whose names start with ``_kaspr``; topics can be read too.

    In a folder a table that does not exist is empty; over a session all are created before.
    """

    most_rows: ClassVar[int | None] = None
    """The limit of statements that have no other limit."""

    dialect: ClassVar[Dialect] = SPARK

    def value(self, value: Value) -> str:
        """A value in SQL."""
        return self.dialect.value(value)

    def rows(self, table: str, clauses: str = "") -> list[dict[str, Any]]:
        """The rows of a table. ``clauses`` follow FROM."""

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        """The rows of a SELECT over any Delta table, which it calls ``t``: it says ``FROM t`` in these letters."""

    def replace(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Replace all rows by these, which have their values in the order of the table's columns."""

    def append(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Append rows."""

    def version(self, table: str) -> int | None:
        """The newest version of a table; None where it does not exist."""

    def alone(self, table: str) -> contextlib.AbstractContextManager[object]:
        """A lock to hold while a table is read in order to write it."""

    def newest(
        self, table: str, order: Sequence[str], most: int | None, where: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """The rows with the greatest values in these columns, greatest first; of those with the texts of ``where``."""
        condition = " AND ".join(f"{quoted(name)} = {self.value(text)}" for name, text in (where or {}).items())
        greatest = ", ".join(f"{quoted(name)} DESC" for name in order)
        return self.rows(table, f"WHERE {condition or 'true'} ORDER BY {greatest}{_limit(most or self.most_rows)}")


class RetryTables(SystemTables, Protocol):
    """The same with the reads and writes of a retry of dead letters, of topics and channels."""

    many_transactions: ClassVar[bool]
    """Whether one commit carries several transactions: rows of some may be there already, and those of others not."""

    def having(self, table: str, columns: Sequence[str], condition: str) -> list[dict[str, Any]]:
        """Columns of the rows for which a SQL condition holds."""

    def append_once(self, table: str, rows: Callable[[], RowsByName]) -> int:
        """Append rows in one commit, and return their number. A transaction that the table has appends nothing again.

        ``rows`` is called while the table's commit lock is held, if it has one.
        """

    def delete(self, table: str, condition: str) -> None:
        """Delete the rows for which a SQL condition holds, in one commit."""


def known_topics(system: SystemTables) -> set[str]:
    """The topics that were made because a function named them."""
    return {row["name"] for row in system.rows(TOPICS)}


def _limit(most: int | None) -> str:
    """The LIMIT clause of a statement; none for None."""
    return "" if most is None else f" LIMIT {most}"


def arrow_rows(table: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows of a system table as Arrow, given their values in the order of the table's columns."""
    return pa.Table.from_batches([batch_of(rows, arrow_schema(SYSTEM[table].columns))])


@dataclass(frozen=True)
class SessionSystemTables(RetryTables):
    """Implements RetryTables with a session, over tables that exist.

    Delta keeps one transaction for each commit of Spark.
    """

    spark: SparkSession
    tables: Tables

    many_transactions: ClassVar[bool] = False

    def rows(self, table: str, clauses: str = "") -> list[dict[str, Any]]:
        return self.tables.query(self.spark, table, f"SELECT * FROM t {clauses}")

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

    def having(self, table: str, columns: Sequence[str], condition: str) -> list[dict[str, Any]]:
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

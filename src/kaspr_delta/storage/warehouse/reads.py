"""The system's own tables and the reads of pages over Unity Catalog, by statements of a SQL warehouse.

Rows come as JSON that Spark's SQL writes: answers of the Statement Execution API have no microseconds. Each statement
has a limit.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, ClassVar

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.typed_values import SPARK_FORMATS, read
from kaspr_delta.spec.ddl import Type, columns_of, quoted
from kaspr_delta.storage.commit_info import CommitInfo, bytes_of, counts_of
from kaspr_delta.storage.dialect import SPARK
from kaspr_delta.storage.layout import SYSTEM, TOPIC
from kaspr_delta.storage.page_reads import Columns, History, PageReads, TextFilter, UnreadableError
from kaspr_delta.storage.spark.sql_text import struct_of
from kaspr_delta.storage.system_tables import SystemTables
from kaspr_delta.storage.warehouse.sql_warehouse import MissingTableError, RefusedError, SqlWarehouse

MOST_ROWS = 10_000
"""The limit of statements that return few rows and have no other limit."""

MOST_COMMITS = 1_000
"""The number of newest commits that are read of a table."""

_AT_ONCE = 8

_OPTIONS = ", ".join(
    SPARK.text(text) for option in {**SPARK_FORMATS, "ignoreNullFields": "false"}.items() for text in option
)


def json_of(struct: str) -> str:
    """The SQL for a struct as JSON."""
    return f"to_json({struct}, map({_OPTIONS}))"


def row_of(columns: Columns, text: str) -> dict[str, Any]:
    """The row in such JSON, with Python values."""
    values = json.loads(text, parse_float=Decimal)
    return {name: _value(kind, values.get(name)) for name, kind in columns.items()}


def _value(kind: Type, value: Any) -> Any:
    if kind.name == "STRUCT" and value is not None:
        return {column.name: _value(column.type, value.get(column.name)) for column in kind.fields}
    try:
        return read(kind, value)
    except SerializationError:  # of a type that no column of this package has
        return value


@dataclass(frozen=True)
class WarehouseSystemTables(SystemTables):
    """Implements SystemTables through a SQL warehouse. Tables must exist to be written."""

    warehouse: SqlWarehouse

    most_rows: ClassVar[int | None] = MOST_ROWS

    def rows(self, table: str, clauses: str = "") -> list[dict[str, Any]]:
        columns = {column.name: column.type for column in columns_of(SYSTEM.get(table, TOPIC).columns)}
        statement = f"SELECT {json_of(struct_of(columns))} FROM {self.warehouse.identifier(table)} {clauses}"
        return [row_of(columns, text or "") for (text,) in self.warehouse.rows_if_there(statement)]

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        found = self.warehouse.named_rows(sql.replace("FROM t", f"FROM {self.warehouse.identifier(table)}"))
        return [dict(row) for row in found]

    def replace(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.warehouse.insert(table, SYSTEM[table].columns, rows, overwrite=True)

    def append(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.warehouse.insert(table, SYSTEM[table].columns, rows)

    def version(self, table: str) -> int | None:
        return self.warehouse.version(table)

    def alone(self, table: str) -> contextlib.AbstractContextManager[object]:
        return self.warehouse.namespace.table_group_lock(table)


@dataclass(frozen=True)
class WarehousePageReads(PageReads):
    """Implements PageReads."""

    warehouse: SqlWarehouse

    comparable = staticmethod(json_of)  # Spark does not compare maps

    def counts(self, tables: Collection[str]) -> dict[str, int | str]:
        if not tables:
            return {}
        each = {table: f"SELECT {SPARK.text(table)}, count(*) FROM {self.named(table)}" for table in tables}
        try:
            counted = self.warehouse.rows(" UNION ALL ".join(each.values()))
            return {str(table): int(count or 0) for table, count in counted}
        except RefusedError:  # one is not there, or may not be read: the others still can
            with ThreadPoolExecutor(_AT_ONCE) as at_once:
                return dict(zip(each, at_once.map(self._count, each.values()), strict=True))

    def tables(self) -> Sequence[str]:
        found = list[str]()
        for schema in filter(None, (self.warehouse.namespace.schema, self.warehouse.namespace.internal)):
            views = {row["viewName"] for row in self.warehouse.named_rows(f"SHOW VIEWS IN {schema}")}
            listed = (str(row["tableName"]) for row in self.warehouse.named_rows(f"SHOW TABLES IN {schema}"))
            found += [name for name in listed if name not in views]
        return found

    def history(self, table: str) -> History:
        described = self.warehouse.named_rows(f"DESCRIBE HISTORY {self.named(table)} LIMIT {MOST_COMMITS}")
        commits = {made.version: made for made in map(_commit, described)}
        return History(range(min(commits), max(commits) + 1) if commits else range(0), commits.get)

    def columns(self, table: str, version: int | None = None) -> dict[str, Type]:
        try:
            found = self.warehouse.columns(f"SELECT * FROM {self.named(table, version)} LIMIT 0")
        except MissingTableError:
            return {}
        except RefusedError:
            if version is None:
                raise
            return {}  # why, the statement that wants its rows says
        return {column.name: column.type for column in found}

    def change_feed(  # noqa: PLR0913, PLR0917  as PageReads has it
        self, table: str, version: int, columns: Columns, texts: TextFilter, key: Sequence[str], most: int
    ) -> list[dict[str, Any]] | str:
        feed = (
            f"SELECT * FROM table_changes({SPARK.text(self.named(table))}, {version}, {version})"
            f" WHERE {self._condition(texts)} ORDER BY {', '.join(map(quoted, key)) or 'true'}"
            f" LIMIT {4 * most}"  # a row that changed is two rows of the feed, and keys are seldom there twice
        )
        try:
            return self.selected(table, version, {**columns, "_change_type": Type("STRING")}, feed)
        except UnreadableError as error:
            return error.reason

    def named(self, table: str, version: int | None = None) -> str:
        at = "" if version is None else f" VERSION AS OF {version}"
        return f"{self.warehouse.identifier(table)}{at}"

    def selected(self, table: str, version: int | None, columns: Columns, sql: str) -> list[dict[str, Any]]:  # noqa: ARG002
        statement = f"SELECT {json_of(self._struct(columns))} FROM ({sql})"
        return [row_of(columns, text or "") for (text,) in self.warehouse.rows_if_there(statement)]

    def _count(self, statement: str) -> int | str:
        try:
            ((_, count),) = self.warehouse.rows(statement)
        except MissingTableError:
            return 0
        except RefusedError as error:
            return error.reason
        return int(count or 0)


def _commit(row: Mapping[str, str | None]) -> CommitInfo:
    """The commit in a row of DESCRIBE HISTORY, whose metrics are the text of a map."""
    metrics = dict(re.findall(r"(\w+)\W+(\d+)", row["operationMetrics"] or ""))
    operation = row["operation"] or ""
    rows = sum(counts_of(operation, metrics) or counts_of("WRITE", metrics))
    return CommitInfo(int(row["version"] or 0), _moment(row["timestamp"] or ""), operation, rows, *bytes_of(metrics))


def _moment(text: str) -> datetime:
    """The time in a text, in UTC if it names no zone."""
    # Python 3.10 reads fractions of six digits, and no Z.
    text = re.sub(r"\.\d+", lambda fraction: fraction[0][:7].ljust(7, "0"), text.replace("Z", "+00:00"))
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)

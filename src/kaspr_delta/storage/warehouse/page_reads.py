"""Implements PageReads over Unity Catalog, by statements of a SQL warehouse, each with a limit."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from kaspr_delta.spec.ddl import Type, quoted
from kaspr_delta.storage.commit_info import CommitInfo, counts_of
from kaspr_delta.storage.page_reads import Columns, History, PageReads, TextFilter, UnreadableError
from kaspr_delta.storage.spark.sql_text import literal
from kaspr_delta.storage.warehouse.json_rows import json_of, row_of
from kaspr_delta.storage.warehouse.sql_warehouse import MissingTableError, RefusedError, SqlWarehouse

MOST_COMMITS = 1_000
"""The number of newest commits that are read of a table."""

_AT_ONCE = 8


@dataclass(frozen=True)
class WarehousePageReads(PageReads):
    """Implements PageReads."""

    warehouse: SqlWarehouse

    literal = staticmethod(literal)
    comparable = staticmethod(json_of)  # Spark does not compare maps

    def counts(self, tables: Collection[str]) -> dict[str, int | str]:
        if not tables:
            return {}
        each = {table: f"SELECT {literal(table)}, count(*) FROM {self.named(table)}" for table in tables}
        try:
            counted = self.warehouse.rows(" UNION ALL ".join(each.values()))
            return {str(table): int(count or 0) for table, count in counted}
        except RefusedError:  # one is not there, or may not be read: the others still can
            with ThreadPoolExecutor(_AT_ONCE) as at_once:
                return dict(zip(each, at_once.map(self._count, each.values()), strict=True))

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
            f"SELECT * FROM table_changes({literal(self.named(table))}, {version}, {version})"
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
    return CommitInfo(int(row["version"] or 0), _moment(row["timestamp"] or ""), operation, rows)


def _moment(text: str) -> datetime:
    """The time in a text, in UTC if it names no zone."""
    # Python 3.10 reads fractions of six digits, and no Z.
    text = re.sub(r"\.\d+", lambda fraction: fraction[0][:7].ljust(7, "0"), text.replace("Z", "+00:00"))
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)

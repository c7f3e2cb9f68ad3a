"""Implements PageReads over Unity Catalog, by statements of a SQL warehouse, each with a limit."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from kaspr_delta.spec.ddl import Type, quoted
from kaspr_delta.storage.commit_info import CommitInfo, rows_counted
from kaspr_delta.storage.layout import UNCOMPARED
from kaspr_delta.storage.page_reads import Columns, History, RowsChanged, RowsFound, TextFilter
from kaspr_delta.storage.spark.sql_text import literal
from kaspr_delta.storage.warehouse.json_rows import json_of, row_of, struct_of
from kaspr_delta.storage.warehouse.sql_warehouse import MissingTableError, RefusedError, SqlWarehouse

MOST_COMMITS = 1_000
"""The number of newest commits that are read of a table."""

MOST_ROWS = 10_000
"""The limit of statements that return few rows and have no other limit."""

_AT_ONCE = 8
# Errors where the files of a version, or its log, are gone.
_GONE = re.compile("FILE_NOT_EXIST|FILE_NOT_FOUND|DELETED_FILE_RETENTION|VERSION_NOT_FOUND|VERSION_NOT_CONTIGUOUS")


@dataclass(frozen=True, slots=True)
class WarehousePageReads:
    """Implements PageReads."""

    warehouse: SqlWarehouse

    def counts(self, tables: Collection[str]) -> dict[str, int | str]:
        if not tables:
            return {}
        each = {table: f"SELECT {literal(table)}, count(*) FROM {self._named(table)}" for table in tables}
        try:
            counted = self.warehouse.rows(" UNION ALL ".join(each.values()))
            return {str(table): int(count or 0) for table, count in counted}
        except RefusedError:  # one is not there, or may not be read: the others still can
            with ThreadPoolExecutor(_AT_ONCE) as at_once:
                return dict(zip(each, at_once.map(self._count, each.values()), strict=True))

    def newest(
        self, table: str, order: Sequence[str], most: int | None, where: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        condition = _condition({name: (text,) for name, text in (where or {}).items()})
        greatest = ", ".join(f"{quoted(name)} DESC" for name in order)
        return self.warehouse.system_rows(table, f"WHERE {condition} ORDER BY {greatest} LIMIT {most or MOST_ROWS}")

    def grouped(self, table: str, columns: Sequence[str]) -> dict[tuple[str | None, ...], int]:
        names = ", ".join(map(quoted, columns))
        found = self.warehouse.rows_if_there(
            f"SELECT {names}, count(*) FROM {self._named(table)} GROUP BY {names} LIMIT {MOST_ROWS}"
        )
        return {tuple(texts): int(count or 0) for *texts, count in found}

    def history(self, table: str) -> History:
        try:
            described = self.warehouse.named_rows(f"DESCRIBE HISTORY {self._named(table)} LIMIT {MOST_COMMITS}")
        except MissingTableError:
            described = []
        commits = {made.version: made for made in map(_commit, described)}
        return History(range(min(commits), max(commits) + 1) if commits else range(0), commits.get)

    def columns(self, table: str, version: int | None = None) -> dict[str, Type]:
        try:
            found = self.warehouse.columns(f"SELECT * FROM {self._named(table, version)} LIMIT 0")
        except MissingTableError:
            return {}
        except RefusedError:
            if version is None:
                raise
            return {}  # why, the statement that wants its rows says
        return {column.name: column.type for column in found}

    def rows(  # noqa: PLR0913, PLR0917  as PageReads has it
        self, table: str, version: int | None, columns: Columns, texts: TextFilter, order: Sequence[str], most: int
    ) -> RowsFound | str:
        rows = f"{self._named(table, version)} WHERE {_condition(texts)}"
        ordered = f"ORDER BY {', '.join(map(quoted, order))} " if order else ""
        selected = (
            f"SELECT (SELECT count(*) FROM {rows}), {json_of(struct_of(columns))} FROM {rows} {ordered}LIMIT {most}"
        )
        try:
            found = list(self.warehouse.rows(selected))
        except RefusedError as error:
            return _why(str(error))
        return RowsFound(_counted(found), tuple(row_of(columns, text or "") for _, text in found))

    def changed_since(  # noqa: PLR0913, PLR0917
        self, table: str, version: int, columns: Columns, texts: TextFilter, key: Sequence[str], most: int
    ) -> RowsChanged:
        values = [name for name in columns if name not in {*key, *UNCOMPARED}]
        compared = json_of(struct_of(values)) if values else "''"
        keys = {f"`key{number}`": quoted(name) for number, name in enumerate(key)}
        named = "".join(f", {name} AS {alias}" for alias, name in keys.items())
        side = f"SELECT {struct_of(columns)} AS `row`, {compared} AS `compared`{named} FROM"
        then, now = (f"({side} {self._named(table, at)} WHERE {_condition(texts)})" for at in (version, None))
        same_key = " AND ".join(f"`was`.{alias} = `now`.{alias}" for alias in keys)
        order = [f"coalesce(`was`.{alias}, `now`.{alias}) AS {alias}" for alias in keys]
        changed = (
            f"SELECT `was`.`row` AS `before`, `now`.`row` AS `after`, {', '.join(order)}"
            f" FROM {then} AS `was` FULL OUTER JOIN {now} AS `now` ON {same_key}"
            " WHERE NOT (`was`.`compared` <=> `now`.`compared`)"
        )
        selected = (
            f"WITH changed AS ({changed}) SELECT (SELECT count(*) FROM changed), {json_of('`before`')},"
            f" {json_of('`after`')} FROM changed ORDER BY {', '.join(keys)} LIMIT {most}"
        )
        found = list(self.warehouse.rows(selected))
        pairs = ([row_of(columns, text) if text else None for text in texts] for _, *texts in found)
        return RowsChanged(_counted(found), tuple((before, after) for before, after in pairs))

    def change_feed(  # noqa: PLR0913, PLR0917
        self, table: str, version: int, columns: Columns, texts: TextFilter, key: Sequence[str], most: int
    ) -> list[dict[str, Any]] | str:
        feed = (
            f"SELECT `_change_type`, {json_of(struct_of(columns))}"
            f" FROM table_changes({literal(self._named(table))}, {version}, {version})"
            f" WHERE {_condition(texts)} ORDER BY {', '.join(map(quoted, key)) or 'true'}"
            f" LIMIT {4 * most}"  # a row that changed is two rows of the feed, and keys are seldom there twice
        )
        try:
            found = list(self.warehouse.rows(feed))
        except RefusedError as error:
            return _why(str(error))
        return [{**row_of(columns, text or ""), "_change_type": what} for what, text in found]

    def _named(self, table: str, version: int | None = None) -> str:
        at = "" if version is None else f" VERSION AS OF {version}"
        return f"{self.warehouse.identifier(table)}{at}"

    def _count(self, statement: str) -> int | str:
        try:
            ((_, count),) = self.warehouse.rows(statement)
        except MissingTableError:
            return 0
        except RefusedError as error:
            return _why(str(error))
        return int(count or 0)


def _condition(texts: TextFilter) -> str:
    tests = (f"{quoted(name)} IN ({', '.join(map(literal, among))})" for name, among in texts.items())
    return " AND ".join(tests) or "true"


def _counted(found: Sequence[Sequence[str | None]]) -> int:
    """The number of rows, which each row of an answer has."""
    return int(found[0][0] or 0) if found else 0


def _why(refusal: str) -> str:
    """The reason in an error, as one line."""
    if _GONE.search(refusal):
        return "its files are gone: VACUUM has removed them"
    return refusal.strip().splitlines()[0][:300].rstrip(".")


def _commit(row: Mapping[str, str | None]) -> CommitInfo:
    """The commit in a row of DESCRIBE HISTORY, whose metrics are the text of a map."""
    metrics = dict(re.findall(r"(\w+)\W+(\d+)", row["operationMetrics"] or ""))
    operation = row["operation"] or ""
    return CommitInfo(
        int(row["version"] or 0), _moment(row["timestamp"] or ""), operation, rows_counted(operation, metrics)
    )


def _moment(text: str) -> datetime:
    """The time in a text, in UTC if it names no zone."""
    # Python 3.10 reads fractions of six digits, and no Z.
    text = re.sub(r"\.\d+", lambda fraction: fraction[0][:7].ljust(7, "0"), text.replace("Z", "+00:00"))
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)

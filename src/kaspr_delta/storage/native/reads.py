"""The system's own tables, retries and the reads of pages by delta-rs, for tables in a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from kaspr_delta.serde.typed_values import from_columns
from kaspr_delta.spec.ddl import Type, quoted
from kaspr_delta.storage.layout import CHANGE_FEED, SYSTEM
from kaspr_delta.storage.namespace import lock_in_time
from kaspr_delta.storage.native.delta_rs import DeltaRs, selected
from kaspr_delta.storage.native.log_files import LOG, commit_of
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.storage.native.sql_text import literal, value_literal
from kaspr_delta.storage.page_reads import Columns, History, PageReads, TextFilter, UnreadableError
from kaspr_delta.storage.system_tables import RetryTables, RowsByName, arrow_rows
from kaspr_delta.storage.tables import Value

# Seconds to wait for another process: that long a lease lasts that a killed one left, and a bit.
_PATIENCE = 60.0


@dataclass(frozen=True)
class NativePageReads(PageReads):
    """Implements PageReads."""

    delta: DeltaRs

    literal = staticmethod(literal)

    def counts(self, tables: Collection[str]) -> dict[str, int | str]:
        here = (table for table in tables if self.delta.has_folder(table))
        return {table: readable(f"'{table}'", partial(self.delta.count, table)) for table in here}

    def tables(self) -> Sequence[str]:
        folder = self.delta.namespace.home
        return sorted(name for name in folder.names() if (folder / name).has_folder(LOG))

    def history(self, table: str) -> History:
        if not self.delta.has_folder(table):
            return History(range(0), lambda _: None)
        return History(self.delta.versions(table), partial(commit_of, self.delta.folder(table)))

    def columns(self, table: str, version: int | None = None) -> dict[str, Type]:
        here = self.delta.has_folder(table)
        return {column.name: column.type for column in (self.delta.types(table, version) if here else None) or ()}

    def change_feed(  # noqa: PLR0913, PLR0917  as PageReads has it
        self,
        table: str,
        version: int,
        columns: Columns,
        texts: TextFilter,
        key: Sequence[str],  # noqa: ARG002
        most: int,  # noqa: ARG002
    ) -> list[dict[str, Any]] | str:
        if self.delta.property(table, CHANGE_FEED, version) != "true":
            return "the change data feed was off"
        if not self.delta.followable(table, version, version):
            return "only Spark reads them: rows were removed by deletion vectors, or the table has column mapping"
        feed = (row for batch in self.delta.changes(table, version, version) for row in batch.to_pylist())
        wanted = [row for row in feed if all(row[name] in among for name, among in texts.items())]
        return _read({**columns, "_change_type": Type("STRING")}, wanted)

    def named(self, table: str, version: int | None = None) -> str:  # noqa: ARG002
        return "now" if version is None else "t"

    def selected(self, table: str, version: int | None, columns: Columns, sql: str) -> list[dict[str, Any]]:
        if version is not None and not self.delta.is_whole(table, version):
            raise UnreadableError("its files are gone: VACUUM has removed them")
        now = self.delta.opened(table)
        if now is None:
            return []
        at_version = {} if version is None else {"t": self.delta.open(table, version)}
        return _read(columns, selected(sql, now=now, **at_version).read_all().to_pylist())


def _read(columns: Columns, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The Python values of rows."""
    return [{name: from_columns(kind, row.get(name)) for name, kind in columns.items()} for row in rows]


@dataclass(frozen=True)
class NativeSystemTables(RetryTables):
    """Implements RetryTables."""

    delta: DeltaRs

    many_transactions: ClassVar[bool] = True

    @staticmethod
    def value(value: Value) -> str:
        return value_literal(value)

    def rows(self, table: str, clauses: str = "") -> list[dict[str, Any]]:
        return self.delta.rows(table, f"SELECT * FROM t {clauses}")

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        return self.delta.rows(table, sql)

    def replace(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.delta.ensure(table, SYSTEM[table])
        self.delta.replace(table, arrow_rows(table, rows))

    def append(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.delta.ensure(table, SYSTEM[table])
        self.delta.append(table, arrow_rows(table, rows))

    def version(self, table: str) -> int | None:
        head = self.delta.head(table)
        return None if head is None else head.version

    def alone(self, table: str) -> contextlib.AbstractContextManager[object]:
        namespace = self.delta.namespace
        if namespace.locks_bind_other_processes:
            return namespace.table_group_lock(table)
        held = contextlib.ExitStack()
        lock_in_time(held, namespace, f"a change of {table}", _PATIENCE)
        return held

    def having(self, table: str, columns: Sequence[str], condition: str) -> list[dict[str, Any]]:
        return self.delta.rows(table, f"SELECT {', '.join(map(quoted, columns))} FROM t WHERE {condition}")

    def append_once(self, table: str, rows: Callable[[], RowsByName]) -> int:
        return self.delta.append_once(table, rows)

    def delete(self, table: str, condition: str) -> None:
        self.delta.delete(table, condition)

"""The reads of pages by delta-rs: tables in a folder."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kaspr_delta.serde.typed_values import from_columns
from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.dialect import DATAFUSION
from kaspr_delta.storage.layout import CHANGE_FEED
from kaspr_delta.storage.native.delta_rs import DeltaRs, selected
from kaspr_delta.storage.native.log_files import LOG, commit_of
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.storage.page_reads import Columns, History, PageReads, TextFilter, UnreadableError


@dataclass(frozen=True)
class NativePageReads(PageReads):
    """Implements PageReads."""

    delta: DeltaRs

    dialect = DATAFUSION

    def counts(self, tables: Collection[str]) -> dict[str, int | str]:
        here = (table for table in tables if self.delta.has_folder(table))
        return {table: readable(f"'{table}'", partial(self.delta.count, table)) for table in here}

    def tables(self) -> Sequence[str]:
        folder = self.delta.namespace.home
        return sorted(name for name in folder.names() if name[0] != "." and (folder / name).has_folder(LOG))

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

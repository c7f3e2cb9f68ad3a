"""The system's own tables, retries, the reads of pages, and records in their order, by delta-rs: tables in a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import pyarrow as pa

from kaspr_delta.serde.typed_values import from_columns
from kaspr_delta.spec.ddl import Type, quoted
from kaspr_delta.storage.arrow_types import without_views
from kaspr_delta.storage.dialect import DATAFUSION
from kaspr_delta.storage.layout import CHANGE_FEED, SYSTEM
from kaspr_delta.storage.namespace import lock_in_time
from kaspr_delta.storage.native.delta_rs import DeltaRs, selected
from kaspr_delta.storage.native.log_files import LOG, commit_of
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.storage.page_reads import Columns, History, PageReads, TextFilter, UnreadableError
from kaspr_delta.storage.system_tables import RetryTables, RowsByName, arrow_rows

# Seconds to wait for another process: that long a lease lasts that a killed one left, and a bit.
_PATIENCE = 60.0
# The commits that are read together have about so many rows.
_ROWS = 5_000


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

    dialect = DATAFUSION
    many_transactions: ClassVar[bool] = True

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


class OnlySparkReadsError(Exception):
    """delta-rs does not read the change feed of these commits, see ``DeltaRs.followable``."""


def records_appended(delta: DeltaRs, table: str, first: int = 0, *, newest_first: bool = False) -> Iterator[pa.Table]:
    """The rows that were appended from a version on, some commits at a time, in order, or the newest commits first.

    They have ``_commit_version``; the rows of each part are ordered by it and ``seq``. Commits whose feed is
    gone are left out. Raises OnlySparkReadsError.
    """
    import pyarrow.compute as pc  # the web side, and commands that read no records, do without

    versions = delta.fed_versions(table)
    versions = range(max(first, versions.start), versions.stop)
    for part in _parts(delta, table, reversed(versions) if newest_first else iter(versions)):
        if not delta.followable(table, part.start, part.stop - 1):
            raise OnlySparkReadsError
        found = [_plain(batch) for batch in delta.changes(table, part.start, part.stop - 1)]
        if found:
            rows = pa.concat_tables(found)
            rows = rows.filter(pc.equal(rows["_change_type"], "insert"))
            yield rows.sort_by([("_commit_version", "ascending"), ("seq", "ascending")])


def _plain(batch: pa.RecordBatch) -> pa.Table:
    """Rows without views: those of removed commits have none."""
    rows = pa.Table.from_batches([batch])
    return rows.cast(pa.schema(map(without_views, rows.schema)))


def _parts(delta: DeltaRs, table: str, versions: Iterator[int]) -> Iterator[range]:
    """Consecutive versions whose commits have about as many rows as are read together."""
    folder = delta.folder(table)
    for version in versions:
        last, rows = version, 0
        for one in chain([version], versions):
            last, commit = one, commit_of(folder, one)
            rows += 0 if commit is None else commit.rows
            if rows >= _ROWS:
                break
        yield range(min(version, last), max(version, last) + 1)

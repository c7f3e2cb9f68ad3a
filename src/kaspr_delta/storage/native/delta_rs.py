"""Delta tables in a folder through delta-rs: reads and small commits take milliseconds.

For the native backend, for commands that answer at once, and for the web side. A commit takes the lock of its table,
here or in the caller (``append_to``, ``copy_to``, ``merger``).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.storage import StoragePlan
from kaspr_delta.spec.ddl import Column, columns_of_json
from kaspr_delta.storage.arrow_types import aligned, arrow_schema, without_views
from kaspr_delta.storage.folders import Folder
from kaspr_delta.storage.layout import AUTO_COMPACT, NOT_INDEXED, PAGE_BYTES, PAGE_ROWS, Layout
from kaspr_delta.storage.namespace import FolderNamespace
from kaspr_delta.storage.native.kept import OpenTable, lent
from kaspr_delta.storage.native.log_files import (
    Head,
    actions_of,
    head_at,
    newest_head,
    oldest_version,
    rows_changed_after,
)
from kaspr_delta.storage.native.old_commits import end_of_old, files_added, rows_removed
from kaspr_delta.storage.native.supports import can_create, misread
from kaspr_delta.storage.tables import Transaction

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.table import TableMerger

# The rows of a row group, which are held in memory until they are written: 8 MB of typical rows. Groups of five times
# the size took a third longer to write, because of the memory; a look-up takes about as long.
_ROWS_OF_A_GROUP = 20_000
# Seconds between one try of a commit and the next one. On this machine conflicts are rare: all commits take a lock.
_PAUSES = (0.01, 0.02, 0.05, *[0.1] * 17)
# The metadata of a column in which Delta keeps its comment.
_COMMENT = "comment"
# delta-rs says so of a commit that removes rows, and raises the error of a conflict.
_APPEND_ONLY = "append-only"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class DeltaRs:
    """The Delta tables of one namespace in a folder. A table that does not exist is read as empty."""

    namespace: FolderNamespace

    # -- reading ------------------------------------------------------------------------------------------------------

    def head(self, table: str, last: Head | None = None) -> Head | None:
        """The newest commit; None where there is no table. ``last`` is the one that was found before."""
        folder = self.folder(table)
        if last is not None and folder.is_here and _is_newest(folder, last):
            return last
        return newest_head(folder)

    def has(self, table: str, commit: Head) -> bool:
        """Whether the log of the table still has this commit, so that the table was not created anew."""
        return head_at(self.folder(table), commit.version) == commit

    def query(self, table: str, sql: str, version: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a SELECT over the table, which it calls ``t``, at a version; the newest by default."""
        with self.lent(table, version) as one:
            if one is not None:
                yield from selected(sql, t=one.table)

    def rows(self, table: str, sql: str = "SELECT * FROM t", version: int | None = None) -> list[dict[str, Any]]:
        """The same as dictionaries."""
        return [row for batch in self.query(table, sql, version) for row in batch.to_pylist()]

    def changes(self, table: str, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """The table's change feed between two versions, both included."""
        end = end_of_old(self.folder(table))
        if first < end:
            from pyarrow.parquet import read_table

            opened = self.opened(table)
            if opened is None:
                return
            schema = _schema_of(opened)
            for added in files_added(self.folder(table), first, min(last, end - 1)).to_pylist():
                with self.folder(table).open(added["file"]) as file:
                    rows = read_table(file, coerce_int96_timestamp_unit="us")
                yield from _inserted(_fitting(rows, schema), added["version"], added["at"]).to_batches()
        if last >= end:
            with self.lent(table, last) as one:
                if one is not None:
                    for batch in one.table.load_cdf(starting_version=max(first, end), ending_version=last):
                        yield pa.record_batch(batch)

    def no_changes(self, table: str) -> pa.Table:
        """A change feed without rows."""
        return _inserted(_schema_of(self.open(table)).empty_table(), 0, datetime.fromtimestamp(0))  # noqa: DTZ006

    def comments(self, table: str) -> StoragePlan:
        """The comments of a table and of its columns; none without a table."""
        return self._about(table, _comments_in) or StoragePlan()

    def followable(self, table: str, first: int, last: int) -> bool:
        """Whether delta-rs reads all changes of these commits from the change feed.

        delta-rs leaves out rows that only a deletion vector removed, and misreads some times (see ``supports``).
        It refuses the feed of a table with column mapping. False also where a commit is gone.
        """
        folder = self.folder(table)
        try:
            tells_all = all(_tells_all(folder, version) for version in range(max(first, end_of_old(folder)), last + 1))
        except FileNotFoundError:
            return False
        return tells_all and not self.has_column_mapping(table)

    def has_column_mapping(self, table: str) -> bool:
        """Whether the columns of a table have other names in its files."""
        return self.property(table, "delta.columnMapping.mode") not in {None, "none"}

    def rows_changed(self, table: str, first: int) -> int:
        """The rows that the commits from a version on wrote, changed and deleted, by the metrics of the commits."""
        folder = self.folder(table)
        in_log = max(first, end_of_old(folder))
        return (rows_changed_after(folder, in_log - 1) or 0) + rows_removed(folder, first)

    def types(self, table: str, version: int | None = None) -> tuple[Column, ...] | None:
        """The columns of a table with their full types; None where there is no table."""
        return self._about(table, columns_in, version)

    def columns_and_properties(self, table: str) -> tuple[tuple[Column, ...], Mapping[str, str]] | None:
        """The columns of a table with their full types, and its properties; None where there is no table."""
        return self._about(table, lambda opened: (columns_in(opened), opened.metadata().configuration), None)

    def property(self, table: str, name: str, version: int | None = None) -> str | None:
        """A property of a table at a version, the newest by default; None if the property or table does not exist."""
        return self._about(table, lambda opened: opened.metadata().configuration.get(name), version)

    def versions(self, table: str) -> range:
        """The versions that can be opened, as far as the log reaches back; none where there is no table.

        The files of an old one may be gone all the same, see ``is_whole``.
        """
        head = self.head(table)
        if head is None:
            return range(0)
        return range(oldest_version(self.folder(table)), head.version + 1)

    def fed_versions(self, table: str) -> range:
        """The versions of which ``changes`` has the feed: also those whose commits were removed from the log."""
        versions = self.versions(table)
        return range(0 if end_of_old(self.folder(table)) else versions.start, versions.stop)

    def is_whole(self, table: str, version: int) -> bool:
        """Whether all files of a version exist: VACUUM removes old files that the newest version does not use."""
        opened = self.opened(table, version)
        return opened is not None and all(map(self.folder(table).has_file, _files_of(opened)))

    def table_id(self, table: str) -> str | None:
        """Delta's id of the table; None where there is no table."""
        return self._about(table, lambda opened: str(opened.metadata().id))

    def count(self, table: str, version: int | None = None) -> int:
        """The number of rows at a version, the newest by default, by the statistics in the log."""
        opened = self.opened(table, version)
        if opened is None:
            return 0
        counted = rows_by_statistics(opened)
        if counted is None:
            return sum(batch.num_rows for batch in self.query(table, "SELECT 1 FROM t", version))
        return counted

    # -- writing ------------------------------------------------------------------------------------------------------

    def ensure(self, table: str, layout: Layout) -> None:
        """Create a table unless it exists."""
        with self.namespace.commit_lock(table):
            if self.head(table) is None and not self.created(table, layout):
                msg = f"only Spark makes a table like '{table}': run the application once"
                raise SetupError(msg)

    def created(self, table: str, layout: Layout) -> bool:
        """Create a table. Returns False, and creates nothing, where its layout needs Spark (``supports``).

        The caller holds the lock of the table's commits.
        """
        if not can_create(layout):
            return False
        # Of two processes that create a table in a bucket at once, the second one finds it.
        in_spite_of_others(lambda: self._create(table, layout))
        return True

    def _create(self, table: str, layout: Layout) -> None:
        deltalake = _deltalake()
        deltalake.DeltaTable.create(
            str(self.folder(table)),
            storage_options=self.namespace.options,
            schema=_commented(arrow_schema(layout.columns), layout.storage),
            mode="ignore",
            description=layout.storage.comment or None,
            configuration=dict(self.namespace.properties_of(layout)),
            raise_if_key_not_exists=False,  # a key that is not Delta's own
            # Else delta-rs commits a second metadata, of another table id, as the version after the other process's.
            commit_properties=deltalake.CommitProperties(max_commit_retries=0),
        )

    def append(self, table: str, rows: pa.Table) -> None:
        """Append rows in one commit. Columns are matched by name; a missing column is null."""
        with self.namespace.commit_lock(table), self.lent(table) as one:
            append_to(OpenTable(self.open(table)) if one is None else one, rows)

    def append_once(self, table: str, rows: Callable[[], Mapping[str, Sequence[Mapping[str, Any]]]]) -> int:
        """Append rows of several transactions in one commit, and return the number of rows appended.

        ``rows`` is called while the table's commit lock is held, and again if another process commits meanwhile, as it
        can in a bucket. Rows of a transaction that the table already has are
        left out, and so is a transaction without rows; columns that a row does not name are null. Without the table
        nothing is appended.
        """
        with self.namespace.commit_lock(table):
            return in_spite_of_others(lambda: self._append_once(table, rows))

    def _append_once(self, table: str, rows: Callable[[], Mapping[str, Sequence[Mapping[str, Any]]]]) -> int:
        with self.lent(table) as opened:
            if opened is None:
                return 0
            parts = {Transaction(name, 1): part for name, part in rows().items() if part}
            new = {one: part for one, part in parts.items() if not _has(opened, one)}
            everything = [row for part in new.values() for row in part]
            if new:
                # Not beside another commit, which may be newer than what was read for the rows.
                added = pa.Table.from_pylist(everything, _schema_of(opened.table))
                _write(opened.table, added, "append", new, retries=0)
            return len(everything)

    def delete(self, table: str, condition: str) -> None:
        """Delete the rows for which a SQL condition holds, in one commit."""

        def deleted() -> None:
            with self.lent(table) as one:
                if one is not None:
                    delete_from(one.table, condition)

        with self.namespace.commit_lock(table):
            in_spite_of_others(deleted)

    def replace(self, table: str, rows: pa.Table) -> None:
        """Replace all rows in one commit."""
        with self.namespace.commit_lock(table):
            in_spite_of_others(lambda: _write(self.open(table), rows, "overwrite"))

    def has_folder(self, table: str) -> bool:
        """Whether a table of this name lies in a folder; another one is in Spark's catalog."""
        return self.namespace.folder(table) is not None

    def lent(self, table: str, version: int | None = None) -> AbstractContextManager[OpenTable | None]:
        """The table opened for one operation, see ``opened``: in a bucket it stays open for the next one."""
        folder = self.folder(table)
        if not folder.is_here:
            return lent(folder, lambda version: self.open(table, version), version)
        opened = self.opened(table, version)
        return nullcontext(None if opened is None else OpenTable(opened))

    def _about(self, table: str, about: Callable[[DeltaTable], Result], version: int | None = None) -> Result | None:
        """An answer about an opened table; None where there is no table."""
        with self.lent(table, version) as one:
            return None if one is None else about(one.table)

    def opened(self, table: str, version: int | None = None) -> DeltaTable | None:
        """The table opened at a version, the newest by default; None where there is no table."""
        if self.folder(table).is_here:  # a look at names is quick, and a failure takes a moment
            return None if self.head(table) is None else self.open(table, version)
        try:
            return self.open(table, version)
        except _deltalake().exceptions.TableNotFoundError:
            return None

    def open(self, table: str, version: int | None = None) -> DeltaTable:
        """The same. Raises deltalake's error where there is no table, or no such version."""
        opened: DeltaTable = _deltalake().DeltaTable(
            str(self.folder(table)), version=version, storage_options=self.namespace.options
        )
        return opened

    def folder(self, table: str) -> Folder:
        """The folder of a table. Raises SetupError for a table that has none (see ``has_folder``)."""
        folder = self.namespace.folder(table)
        if folder is None:
            msg = f"the tables of {self.namespace.schema} are not in a folder"
            raise SetupError(msg)
        return folder


def columns_in(opened: DeltaTable) -> tuple[Column, ...]:
    """The columns of an opened table with their full types."""
    return columns_of_json(json.loads(opened.schema().to_json())["fields"])


def _comments_in(opened: DeltaTable) -> StoragePlan:
    fields = json.loads(opened.schema().to_json())["fields"]
    columns = tuple((one["name"], one["metadata"][_COMMENT]) for one in fields if one.get("metadata", {}).get(_COMMENT))
    return StoragePlan(opened.metadata().description or "", column_comments=columns)


def _commented(schema: pa.Schema, storage: StoragePlan) -> pa.Schema:
    """The columns with their comments, as Delta keeps them."""
    comments = dict(storage.column_comments)
    fields = [one.with_metadata({_COMMENT: comments[one.name]}) if one.name in comments else one for one in schema]
    return pa.schema(fields)


def append_to(one: OpenTable, rows: pa.Table, transaction: Transaction | None = None) -> bool:
    """Append rows to an opened table. Returns False, and appends nothing, if the table has the transaction.

    The caller holds the lock of the table's commits.
    """
    if transaction is not None and _has(one, transaction):
        return False
    before = one.table.version()
    rows = _fitting(rows, _schema_of(one.table))
    _write(one.table, rows, "append", [] if transaction is None else [transaction])
    one.committed(transaction, before)
    return True


def copy_to(opened: DeltaTable, sql: str, source: DeltaTable, transaction: Transaction) -> bool:
    """The same with the rows of a SELECT over a source, called ``t``. They pass through memory in batches."""
    if _has(OpenTable(opened), transaction):
        return False
    _write(opened, _reader(sql, t=source), "append", [transaction])
    return True


def compact(opened: DeltaTable) -> None:
    """Rewrite the small files of an opened table as larger ones, in one commit, if its property asks for that.

    The caller holds the lock of the table's commits.
    """
    if opened.metadata().configuration.get(AUTO_COMPACT) == "true":
        opened.optimize.compact(post_commithook_properties=_hooks(), writer_properties=_files())


def delete_from(opened: DeltaTable, condition: str) -> None:
    """Delete the rows of an opened table for which a SQL condition holds, in one commit.

    The caller holds the lock of the table's commits.
    """
    opened.delete(condition, post_commithook_properties=_hooks(), writer_properties=_files())


def merger(opened: DeltaTable, rows: pa.Table, predicate: str, *, cleans: bool = True) -> TableMerger:
    """A MERGE of rows, called ``s``, into an opened table, called ``t``, before its clauses are added.

    ``cleans``: it may remove expired commits, for which the log is listed.
    """
    return opened.merge(
        rows,
        predicate,
        source_alias="s",
        target_alias="t",
        writer_properties=_files(),
        streamed_exec=False,  # so that files whose keys all lie elsewhere are not read
        post_commithook_properties=_hooks(cleanup=None if cleans else False),
    )


_ONLY_FOR_SPARK = re.compile(r"Unsupported table features required: \[([^\]]*)\]")


def selected(sql: str, **tables: Any) -> pa.RecordBatchReader:
    """The rows of a SELECT over tables, which it calls by these names.

    Texts and bytes are plain ones: DataFusion gives views, which Arrow below 20 cannot measure.
    """
    reader = pa.RecordBatchReader.from_stream(_reader(sql, **tables))
    return reader.cast(pa.schema(map(without_views, reader.schema)))


def _reader(sql: str, **tables: Any) -> Any:
    query = _deltalake().QueryBuilder()
    query.execute("SET datafusion.execution.parquet.coerce_int96 = 'us'")  # otherwise as `supports` says
    try:
        for name, opened in tables.items():
            query = query.register(name, opened)
        return query.execute(sql)
    except _deltalake().exceptions.DeltaError as error:
        if (features := _ONLY_FOR_SPARK.search(str(error))) is None:
            raise
        msg = (
            f"a table has features that only Spark reads ({features[1]}), and this reads without Spark:"
            " ALTER TABLE … DROP FEATURE takes one away"
        )
        raise SetupError(msg) from error


def in_spite_of_others(commit: Callable[[], Result]) -> Result:
    """The result of a commit, which begins again where another writer's commit was in its way."""
    for pause in _PAUSES:
        try:
            return commit()
        except _deltalake().exceptions.CommitFailedError as error:
            if _APPEND_ONLY in str(error):
                raise
            time.sleep(pause)
    return commit()


def is_refused(error: Exception) -> bool:
    """Whether delta-rs refuses a table because it does not know a feature of its protocol."""
    return isinstance(error, _deltalake().exceptions.DeltaError) and "Unsupported" in str(error)


def rows_by_statistics(opened: DeltaTable) -> int | None:
    """The number of rows of a table by the statistics in its log; None if these do not tell.

    They count rows that deletion vectors removed; a scan does not.
    """
    has_vectors = "deletionVectors" in (opened.protocol().reader_features or ())
    return None if has_vectors else rows_in(pa.table(opened.get_add_actions(flatten=True)))


def rows_in(files: pa.Table) -> int | None:
    """The number of rows of files (``get_add_actions``); None if a file has no statistics."""
    counted = files["num_records"].to_pylist() if "num_records" in files.column_names else [None] * len(files)
    return None if None in counted else sum(counted)


def _has(one: OpenTable, transaction: Transaction) -> bool:
    last = one.last_transaction(transaction.app_id)
    return last is not None and last >= transaction.version


def _write(
    opened: DeltaTable, rows: Any, mode: Any, transactions: Iterable[Transaction] = (), retries: int | None = None
) -> None:
    """Write a table of rows, or a reader of batches. ``retries``: how often it may commit after other writers."""
    deltalake = _deltalake()
    if isinstance(rows, pa.Table):
        rows = aligned(rows)
    marks = [deltalake.Transaction(one.app_id, one.version) for one in transactions]
    properties = deltalake.CommitProperties(app_transactions=marks, max_commit_retries=retries)
    deltalake.write_deltalake(
        opened,
        rows,
        mode=mode,
        commit_properties=properties,
        post_commithook_properties=_hooks(),
        writer_properties=_files(),
    )


def _files() -> Any:
    """The properties of Parquet files: as Spark writes them, see ``runtime.spark_settings``.

    A dictionary of keys, too, is given up late here: when it has 1 MB.
    """
    deltalake = _deltalake()
    unlike = deltalake.ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE")
    key = deltalake.ColumnProperties(dictionary_enabled=False)
    return deltalake.WriterProperties(
        compression="SNAPPY",
        data_page_size_limit=PAGE_BYTES,
        data_page_row_count_limit=PAGE_ROWS,
        max_row_group_size=_ROWS_OF_A_GROUP,
        column_properties={"key": key, **dict.fromkeys(NOT_INDEXED, unlike)},
    )


def _schema_of(opened: DeltaTable) -> pa.Schema:
    return pa.schema(opened.schema().to_arrow())


def _fitting(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    if unknown := set(rows.column_names) - set(schema.names):
        msg = f"the table has no columns {', '.join(sorted(unknown))}"
        raise ValueError(msg)
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field.name, pa.nulls(rows.num_rows, field.type))
    rows = rows.select(schema.names)
    return rows if rows.schema == schema else rows.cast(schema)  # a cast imports pyarrow.compute


def _inserted(rows: pa.Table, version: int, at: datetime) -> pa.Table:
    """Rows that a commit inserted, with the columns of a change feed."""
    columns = {
        "_change_type": pa.repeat("insert", rows.num_rows),
        "_commit_version": pa.repeat(pa.scalar(version, pa.uint64()), rows.num_rows),
        "_commit_timestamp": pa.repeat(pa.scalar(at, pa.timestamp("ms")), rows.num_rows),
    }
    for name, column in columns.items():
        rows = rows.append_column(name, column)
    return rows


def _is_newest(folder: Folder, commit: Head) -> bool:
    """Whether a commit still is the newest one: this reads two file names."""
    return head_at(folder, commit.version) == commit and head_at(folder, commit.version + 1) is None


def _files_of(opened: DeltaTable) -> list[str]:
    """The data files of an opened table, in its folder."""
    paths: list[str] = pa.table(opened.get_add_actions(flatten=True))["path"].to_pylist()
    return list(map(unquote, paths))


def _tells_all(folder: Folder, version: int) -> bool:
    actions = actions_of(folder, version)
    if misread(folder, actions):
        return False
    if any("cdc" in action for action in actions):
        return True
    files = [action[kind] for action in actions for kind in ("add", "remove") if kind in action]
    return not any(file.get("deletionVector") and file.get("dataChange", True) for file in files)


def _hooks(*, cleanup: bool | None = False) -> Any:
    """The hooks after a commit: a checkpoint is written when it is due.

    ``cleanup``: expired commits are never removed (False), or as the table's properties say (None).
    """
    return _deltalake().PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=cleanup)


def _deltalake() -> Any:
    try:
        import deltalake
    except ImportError as error:
        msg = "deltalake is not installed: pip install 'kaspr-delta[local]', or 'kaspr-delta[serve]' to serve alone"
        raise SetupError(msg) from error
    return deltalake

"""Delta tables in a folder: delta-rs does what it supports, Spark the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kaspr_delta.errors import SetupError
from kaspr_delta.spec.ddl import Column, columns_of, quoted
from kaspr_delta.storage.arrow_types import frame_of
from kaspr_delta.storage.dialect import DATAFUSION, SPARK
from kaspr_delta.storage.folders import Folder, LocalFolder
from kaspr_delta.storage.layout import CHANGE_FEED, CHECKPOINT_INTERVAL, COMMIT_COLUMNS, KEY, Layout
from kaspr_delta.storage.lazy_session import because, is_running, session_of
from kaspr_delta.storage.limits import Size
from kaspr_delta.storage.namespace import FolderNamespace
from kaspr_delta.storage.native.attempts import Attempts, NativeScan
from kaspr_delta.storage.native.delta_rs import (
    DeltaRs,
    append_to,
    columns_in,
    compact,
    delete_from,
    rows_by_statistics,
)
from kaspr_delta.storage.native.kept import OpenTable
from kaspr_delta.storage.native.log_cleaning import clean_followed_log, clean_log, has_long_log
from kaspr_delta.storage.native.log_files import commit_of, newest_in, newest_version
from kaspr_delta.storage.native.look_up import look_up
from kaspr_delta.storage.native.merge import merge
from kaspr_delta.storage.native.old_commits import IrregularError, end_of_old, files_added
from kaspr_delta.storage.native.records import in_plain_texts
from kaspr_delta.storage.native.supports import may_be_misread
from kaspr_delta.storage.spark.sql_text import creation
from kaspr_delta.storage.tables import (
    FIRST_ROWS,
    Commit,
    Frame,
    Merged,
    Result,
    Scan,
    Tables,
    Texts,
    Transaction,
    Upsert,
    Value,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class NativeTables(Tables):
    """Tables of others that have no folder (named with dots, or by a URI) are read by Spark alone.

    Only tables of this namespace are created, dropped, written, asked for notes and queried.
    """

    namespace: FolderNamespace

    @property
    def _attempts(self) -> Attempts:
        return Attempts(self._delta, self.statistics)

    @property
    def _delta(self) -> DeltaRs:
        return DeltaRs(self.namespace)

    # -- create --------------------------------------------------------------------------------------------------------

    def create_schema(self, spark: SparkSession) -> None:
        """The same. Raises SetupError for a session that could lose commits in a bucket."""
        name, value = self.namespace.log_store or ("", "")
        if name and spark.conf.get(name, "") != value:
            raise SetupError(
                f"this Spark session is not made for {self.namespace.home}: two processes could replace each other's"
                f" commits. Set {name}={value}, with its jar in kaspr_delta/storage/spark/log_store, or give no session"
            )
        super().create_schema(spark)

    def create(self, spark: SparkSession, table: str, layout: Layout) -> None:
        self._alone(spark, table, lambda: self._create(spark, table, layout))

    def _create(self, spark: SparkSession, table: str, layout: Layout) -> None:
        folder, identifier = self._delta.folder(table), self.namespace.identifier(table)
        is_new = newest_version(folder) is None
        if is_new and is_running(spark):
            # A catalog may remember a table whose folder was deleted.
            spark.sql(f"DROP TABLE IF EXISTS {identifier}")
        if is_new and not self._delta.created(table, layout):
            session = _needed(spark, "create", table)
            statement = creation(self.namespace, table, layout, self.namespace.properties_of(layout))
            self._retried(lambda: session.sql(statement))
        elif is_running(spark) and (is_new or table not in self._listed):
            spark.sql(f"CREATE TABLE IF NOT EXISTS {identifier} USING DELTA LOCATION {SPARK.text(folder.for_spark)}")
        if is_new:
            self._created.add(table)

    def has_layout(self, table: str, layout: Layout) -> bool:
        found, wanted_storage = self._delta.columns_and_properties(table), layout.storage
        if found is None or not wanted_storage.only_comments:
            return False
        comments = self._delta.comments(table)
        if comments.comment != wanted_storage.comment or not (
            set(wanted_storage.column_comments) <= set(comments.column_comments)
        ):
            return False
        columns, properties = found
        wanted = self.namespace.properties_of(layout)
        return columns == columns_of(layout.columns) and wanted.items() <= properties.items()

    def ensure(self, spark: SparkSession, table: str, layout: Layout) -> None:
        if not self.is_known(table):
            self.create(spark, table, layout)

    def is_known(self, table: str) -> bool:
        return newest_version(self._delta.folder(table)) is not None

    def drop(self, spark: SparkSession, table: str) -> None:
        self._listed.discard(table)
        folder = self._delta.folder(table)
        with self.namespace.commit_lock(table):
            spark.sql(f"DROP TABLE IF EXISTS {self.namespace.identifier(table)}")
            folder.remove_table()

    @property
    def keeps_views(self) -> bool:
        return False

    def files_stay_at(self, table: str) -> str | None:  # noqa: ARG002
        return None

    # -- pin and describe ----------------------------------------------------------------------------------------------

    def newest(self, spark: SparkSession, table: str) -> Commit:
        folder = self.namespace.folder(table)
        return super().newest(spark, table) if folder is None else newest_in(folder)

    def exists(self, spark: SparkSession, table: str) -> bool:
        return super().exists(spark, table) if self.namespace.folder(table) is None else self.is_known(table)

    def columns(self, spark: SparkSession, table: str) -> tuple[Column, ...]:
        found = self._attempts.attempt("scan", table, columns_in)
        if found is not None:
            return found
        folder = self.namespace.folder(table)
        return super().columns(spark, table if folder is None else folder.for_spark)

    def named_key(self, spark: SparkSession, table: str) -> str | None:  # noqa: ARG002
        return self._delta.property(table, KEY)

    def count(self, spark: SparkSession, table: str, version: int | None = None) -> int:
        counted = self._attempts.attempt("scan", table, rows_by_statistics, version)
        return super().count(spark, table, version) if counted is None else counted

    def table_id(self, spark: SparkSession, table: str) -> str | None:
        return self._delta.table_id(table) if self._delta.has_folder(table) else super().table_id(spark, table)

    def change_file_count(self, table: str, version: int) -> int | None:
        folder = self.namespace.folder(table)
        commit = None if folder is None else commit_of(folder, version)
        return None if commit is None else commit.change_files

    def changes(self, spark: SparkSession, table: str, first: int = 0, last: int | None = None) -> DataFrame:
        folder = self.namespace.folder(table)
        if folder is None or first >= end_of_old(folder):
            return super().changes(spark, table, first, last)
        newest, end = newest_in(folder).version, end_of_old(folder)
        try:
            return self._rows_of(spark, folder, files_added(folder, first, newest if last is None else last))
        except IrregularError:  # in the log
            old = self._rows_of(spark, folder, files_added(folder, first, end - 1))
            return old.unionByName(super().changes(spark, table, end, last))

    def _rows_of(self, spark: SparkSession, folder: Folder, added: pa.Table) -> DataFrame:
        """The change feed of commits that appended these files. Raises FileNotFoundError if one of them is gone."""
        from pyspark.sql import functions as F

        if gone := set(added["file"].to_pylist()) - set(folder.names()):
            raise FileNotFoundError(f"{folder}/{min(gone)}")
        rows = self.read(spark, folder.for_spark)
        columns = [F.col(quoted(name)) for name in rows.columns]
        reader = spark.read.schema(rows.schema).option("__globPaths__", "false")
        paths = [(folder / name).for_spark for name in added["file"].unique().to_pylist()]
        found = reader.parquet(*paths) if paths else rows.limit(0)
        commits = frame_of(spark, added).select(
            F.col("file").alias("_file"),
            F.lit("insert").alias("_change_type"),
            F.col("version").alias("_commit_version"),
            F.col("at").alias("_commit_timestamp"),
        )
        named = found.select(*columns, F.col("_metadata.file_name").alias("_file"))
        return named.join(F.broadcast(commits), "_file").drop("_file")

    def changes_here(
        self, table: str, first: int, last: int, most: Size, columns: Sequence[str] | None = None
    ) -> pa.Table | None:
        if not self._delta.has_folder(table) or first not in self._delta.fed_versions(table):
            return None
        if self._delta.rows_changed(table, first) > most.rows or not self._delta.followable(table, first, last):
            return None
        parts, size = [in_plain_texts(self._delta.no_changes(table))], 0
        for batch in self._delta.changes(table, first, last):
            part = pa.Table.from_batches([batch])
            part = in_plain_texts(part if columns is None else part.select([*columns, *COMMIT_COLUMNS]))
            size += part.nbytes  # older Arrow cannot tell it for views
            if size > most.bytes:
                return None
            parts.append(part)
        rows = pa.concat_tables(parts[1:] or parts)
        return rows if most.fits(rows) else None

    def as_they_are(self, versions: Mapping[str, int]) -> Tables:
        return TablesAsTheyAre(self.namespace, self.limits, self.statistics, versions=versions)

    def clean_followed_log(self, table: str, kept: int | None, needed: Callable[[], Mapping[str, int]]) -> None:
        folder = self._delta.folder(table)
        if not isinstance(folder, LocalFolder) or not has_long_log(folder):
            return
        if self._delta.has_column_mapping(table):
            return
        first = needed().get(self._delta.table_id(table) or "")
        far = newest_in(folder).version - self.limits.followed_commits
        seconds = self.limits.log_kept if kept is None else kept / 1_000
        with self.namespace.commit_lock(table):
            clean_followed_log(folder, seconds, None if first is None or first < far else first)

    def clean_log(self, table: str) -> None:
        folder = self._delta.folder(table)
        if has_long_log(folder):
            with self.namespace.commit_lock(table):
                clean_log(folder, self.limits.log_kept)

    def notes(self, spark: SparkSession, table: str, after: int) -> dict[str, int]:  # noqa: ARG002
        folder = self._delta.folder(table)
        commits = (commit_of(folder, version) for version in range(after + 1, newest_in(folder).version + 1))
        return {commit.note: commit.rows for commit in commits if commit is not None and commit.note is not None}

    # -- read ----------------------------------------------------------------------------------------------------------

    def query(self, spark: SparkSession, table: str, sql: str, **values: Value) -> list[dict[str, Any]]:  # noqa: ARG002
        return self._delta.rows(table, DATAFUSION.filled(sql, values))

    def query_each(self, spark: SparkSession, selects: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
        return {table: self.query(spark, table, sql) for table, sql in selects.items()}

    def scan(self, spark: SparkSession, table: str, version: int | None = None) -> Scan:
        def all_rows() -> DataFrame:
            return self.read(because(spark, _reason("read", table)), table, version)

        return NativeScan(all_rows, attempts=self._attempts, table=table, version=version)

    def look_up(self, spark: SparkSession, table: str, texts: Texts, version: int | None = None) -> Frame:
        folder = self.namespace.folder(table)
        if folder is not None:
            found = self._attempts.attempt(
                "look up", table, lambda opened: look_up(folder, opened, texts, self.limits), version
            )
            if found is not None:
                return found
        return super().look_up(spark, table, texts, version)

    def appended_rows(self, spark: SparkSession, table: str) -> DataFrame | None:
        # A table in a folder has no row tracking: delta-rs cannot write one that has.
        return None if self._delta.has_folder(table) else super().appended_rows(spark, table)

    # -- write --------------------------------------------------------------------------------------------------------

    def delete(self, spark: SparkSession, table: str, condition: str, **values: Value) -> None:
        """The same; without Spark in a table without a change data feed."""

        def deleted(opened: DeltaTable) -> bool | None:
            times = [one.name for one in columns_in(opened) if one.type.name == "TIMESTAMP"]
            files = pa.table(opened.get_add_actions(flatten=True))
            feeds = opened.metadata().configuration.get(CHANGE_FEED) == "true"
            if feeds or may_be_misread(self._delta.folder(table), files, times):
                return None
            delete_from(opened, DATAFUSION.filled(condition, values))
            return True

        with self.namespace.commit_lock(table):
            done = self._attempts.attempt("merge", table, deleted)
        if done is None:
            super().delete(spark, table, condition, **values)

    def _alone(self, spark: SparkSession, table: str, operation: Callable[[], Result]) -> Result:
        """The same. An operation begins again if it finds that it needs a session.

        A session that starts registers all tables under their locks, so none of these may be held meanwhile.
        """
        try:
            return super()._alone(spark, table, operation)
        except _SessionNeededError:
            session_of(spark)
            return super()._alone(spark, table, operation)

    # Tables calls these methods under the lock of the table's commits.

    def _append(
        self, spark: SparkSession, rows: Frame, table: str, transaction: Transaction | None, note: str | None
    ) -> None:
        if not (isinstance(rows, pa.Table) and note is None and self._appended(spark, rows, table, transaction)):
            super()._append(_needed(spark, "append to", table), rows, table, transaction, note)

    def _is_worth_filling(self, rows: Frame) -> bool:  # noqa: ARG002
        return True  # the question takes no job

    def _fill(self, spark: SparkSession, rows: Frame, table: str, upsert: Upsert, copied_from: Scan | None) -> Merged:
        if not self._copied(table, upsert, copied_from):
            first = rows.filter(rows[upsert.keep]).select(upsert.columns) if isinstance(rows, pa.Table) else None
            if first is None or not self._appended(spark, first, table, FIRST_ROWS):
                super()._fill(spark, rows, table, upsert, copied_from)
        folder = self._delta.folder(table)
        commit = commit_of(folder, newest_in(folder).version)
        return Merged(0 if commit is None else commit.rows)

    def _merge(self, spark: SparkSession, rows: Frame, table: str, upsert: Upsert) -> Merged:
        folder = self._delta.folder(table)
        if isinstance(rows, pa.Table):
            merged = self._attempts.attempt("merge", table, lambda opened: merge(folder, opened, rows, upsert))
            if merged is not None:
                return merged
        before = newest_in(folder).version
        merged = super()._merge(_needed(spark, "merge into", table), rows, table, upsert)
        newest = newest_in(folder).version
        commit = None if newest == before else commit_of(folder, newest)
        counted = {} if commit is None else commit.metrics
        copied, rewritten = (int(counted.get(name, 0)) for name in ("numTargetRowsCopied", "numTargetFilesRemoved"))
        return Merged(merged.rows, copied, rewritten)

    def _appended(self, spark: SparkSession, rows: pa.Table, table: str, transaction: Transaction | None) -> bool:
        """Whether delta-rs appended the rows.

        Each 50th append is left to Spark if it runs (CHECKPOINT_INTERVAL): Spark also removes expired commits, and
        compacts small files. If none runs, delta-rs compacts them.
        """
        due = False

        def appended(one: OpenTable) -> bool | None:
            nonlocal due
            due = (one.table.version() + 1) % CHECKPOINT_INTERVAL == 0
            return None if due and is_running(spark) else append_to(one, rows, transaction)

        # A failure may come after the commit: Spark may try again only if the table has the transaction by then.
        done = self._attempts.attempt_with("append", table, appended, repeatable=transaction is not None)
        if done is None and is_running(spark):
            newest_in(self._delta.folder(table))  # raises the error of a table that is gone
        if due and done:
            self._attempts.attempt("append", table, compact)
        return done is not None

    def _copied(self, table: str, upsert: Upsert, copied_from: Scan | None) -> bool:
        """Whether delta-rs filled a table by a copy of rows that another one stores."""
        if not isinstance(copied_from, NativeScan):
            return False
        copied = self._attempts.attempt(
            "append", table, lambda opened: copied_from.copy_to(opened, upsert.columns, FIRST_ROWS)
        )
        return copied is not None


@dataclass(frozen=True)
class TablesAsTheyAre(NativeTables):
    """The same tables, whose streams are batches: up to the ``versions`` by table, and also from removed commits."""

    versions: Mapping[str, int] = field(default_factory=dict)

    def stream(self, spark: SparkSession, table: str, first: int, limit: str | None = None) -> DataFrame:  # noqa: ARG002
        return self.changes(spark, table, first, self.versions[table])

    def stream_after(self, spark: SparkSession, table: str, version: int, limit: str | None = None) -> DataFrame:  # noqa: ARG002
        if version >= self.versions[table]:
            return self.changes(spark, table, version, version).limit(0)
        return self.changes(spark, table, version + 1, self.versions[table])


class _SessionNeededError(Exception):
    """An operation under the lock of a table needs a session that does not run yet."""


def _needed(spark: SparkSession, operation: str, table: str) -> SparkSession:
    """The session for an operation under a lock that delta-rs does not do with these rows and this table."""
    if not is_running(spark):
        because(spark, _reason(operation, table))
        raise _SessionNeededError
    return spark


def _reason(operation: str, table: str) -> str:
    return f"delta-rs does not {operation} '{table}' (docs/design/native.md)"

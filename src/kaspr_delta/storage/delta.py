"""Every Delta statement of this package. Nothing else reads, writes, creates or describes a Delta table.

DataFrame API and SQL text only, so that the same code runs on classic Spark, Spark Connect and serverless. Each method
takes the session it works on: inside ``foreachBatch`` that must be the batch's own.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kaspr_delta.spec.ddl import Column, Type, columns_of_json, quoted
from kaspr_delta.storage.commit_rows import change_files_of, commit_of, files_of, metrics_of, notes_in
from kaspr_delta.storage.delta_rs import DeltaRs
from kaspr_delta.storage.frames import collected, frame_of
from kaspr_delta.storage.gone import table_gone
from kaspr_delta.storage.layout import CHECKPOINT_INTERVAL, TRACKED, TRACKING, Layout
from kaspr_delta.storage.look_up import looked_up
from kaspr_delta.storage.merge import Merged, Upsert, as_stored, merge_statement
from kaspr_delta.storage.merge_here import merged_here
from kaspr_delta.storage.namespace import Namespace
from kaspr_delta.storage.part import Part
from kaspr_delta.storage.sql_text import literal
from kaspr_delta.storage.transaction import Transaction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Result = TypeVar("Result")

_CONFLICT_ATTEMPTS = 6
_ANSWERS_LOST = 2
# Delta's own names for "somebody else committed first"; the statement is safe to run again on the new version.
_CONFLICTS = (
    "DELTA_CONCURRENT_",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "ConcurrentAppendException",
    "ConcurrentDelete",
)


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of a table, and when it was committed."""

    version: int
    at: datetime


@dataclass(slots=True)
class Counted:
    """How often something happened since it was last asked."""

    count: int = 0

    def add(self, more: int) -> None:
        """It happened so many times more."""
        self.count += more

    def taken(self) -> int:
        """The count so far; counting begins anew."""
        taken, self.count = self.count, 0
        return taken


@dataclass(frozen=True, slots=True)
class Delta:
    """The Delta tables of one namespace."""

    namespace: Namespace
    # Statements that were run again because somebody else committed first, and files in which rows were looked up.
    conflicts: Counted = field(default_factory=Counted, compare=False)
    files_looked_up: Counted = field(default_factory=Counted, compare=False)
    # Tables of which is known that something was written to them, and names that the catalog had.
    _used: set[str] = field(default_factory=set, compare=False, repr=False)
    _listed: set[str] = field(default_factory=set, compare=False, repr=False)

    # -- creating -----------------------------------------------------------------------------------------------------

    def create_schema(self, spark: SparkSession) -> None:
        """Make the schema, unless it is there: whoever may only use it needs no right to make one.

        What it has is listed once: a statement for each table and view takes ten times as long.
        """
        if not spark.catalog.databaseExists(self.namespace.schema):
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {self.namespace.schema}")
            return
        listed = _asked_again(lambda: spark.sql(f"SHOW TABLES IN {self.namespace.schema}").collect())
        self._listed.update(row["tableName"] for row in listed if not row["isTemporary"])

    def ensure(self, spark: SparkSession, table: str, layout: Layout) -> None:
        """Create the table, or register the one that is already at its place."""
        identifier = self.namespace.identifier(table)
        location = self.namespace.location(table)
        with self.namespace.commit_lock(table):
            is_there = location is None or _is_delta(location)
            if is_there and table in self._listed:
                return
            if location is not None and is_there:
                spark.sql(f"CREATE TABLE IF NOT EXISTS {identifier} USING DELTA LOCATION {literal(str(location))}")
                return
            if location is not None:  # a catalog may remember a table whose folder was deleted
                spark.sql(f"DROP TABLE IF EXISTS {identifier}")
            # Tasks of a job that start side by side all create what is not there yet.
            place = self.namespace.declared_location(table)
            made = creation(identifier, layout, place, in_catalog=location is None)
            self._retried(lambda: spark.sql(made))

    def set_properties(self, spark: SparkSession, table: str, properties: Mapping[str, str]) -> None:
        """Give a table these properties, unless it has them."""
        identifier = self.namespace.identifier(table)
        has = self._properties(spark, table)
        if any(has.get(name) != value for name, value in properties.items()):
            with self.namespace.commit_lock(table):
                self._retried(lambda: spark.sql(f"ALTER TABLE {identifier} SET TBLPROPERTIES ({_listed(properties)})"))

    def exists(self, spark: SparkSession, table: str) -> bool:
        """Whether the table is there (and registered)."""
        location = self.namespace.location(table)
        if location is not None:
            return _is_delta(location)
        return spark.catalog.tableExists(self.namespace.identifier(table))

    def columns(self, spark: SparkSession, table: str) -> tuple[Column, ...]:
        """The table's columns as they are. A table of a folder need not be registered yet."""
        location = self.namespace.location(table)
        rows = self.read(spark, table) if location is None else self.read_elsewhere(spark, str(location))
        return columns_of_json(rows.schema.jsonValue()["fields"])

    def add_columns(self, spark: SparkSession, table: str, columns: Sequence[tuple[str, Type]]) -> None:
        """Add columns, and fields of columns: each with its whole name in SQL."""
        added = ", ".join(f"{name} {kind}" for name, kind in columns)
        with self.namespace.commit_lock(table):
            self._retried(lambda: spark.sql(f"ALTER TABLE {self.namespace.identifier(table)} ADD COLUMNS ({added})"))

    def has_change_feed(self, spark: SparkSession, table: str) -> bool:
        """Whether the table's commits tell which rows they changed."""
        return self._properties(spark, table).get("delta.enableChangeDataFeed") == "true"

    def create_view(self, spark: SparkSession, view: str, table: str, columns: Mapping[str, str]) -> None:
        """A view over a table, unless it is there: column name to SQL expression."""
        if view in self._listed:
            return
        select = ", ".join(f"{expression} AS `{name}`" for name, expression in columns.items())
        spark.sql(
            f"CREATE VIEW IF NOT EXISTS {self.namespace.identifier(view)} AS"
            f" SELECT {select} FROM {self.namespace.identifier(table)}"
        )

    def drop(self, spark: SparkSession, table: str) -> None:
        """Remove a table and its data, for good. Of an external table the folder stays, with its history."""
        self._listed.discard(table)
        location = self.namespace.location(table)
        with self.namespace.commit_lock(table):
            if location is None and self.namespace.declared_location(table) is not None and self.exists(spark, table):
                self._retried(lambda: spark.sql(f"DELETE FROM {self.namespace.identifier(table)}").collect())
            spark.sql(f"DROP TABLE IF EXISTS {self.namespace.identifier(table)}")
            if location is not None and location.exists():
                shutil.rmtree(location)

    def drop_view(self, spark: SparkSession, view: str) -> None:
        """Remove a view."""
        self._listed.discard(view)
        spark.sql(f"DROP VIEW IF EXISTS {self.namespace.identifier(view)}")

    def use(self, spark: SparkSession) -> None:
        """Make the schema the session's current one, so that SQL may name tables without it."""
        spark.sql(f"USE {self.namespace.schema}")

    # -- reading ------------------------------------------------------------------------------------------------------

    def newest(self, spark: SparkSession, table: str) -> Commit:
        """The table's newest version."""
        location = self.namespace.location(table)
        if location is not None:
            return _newest_in(location)
        history = spark.sql(f"DESCRIBE HISTORY {self.namespace.identifier(table)} LIMIT 1")
        row = history.select("version", "timestamp").first()
        if row is None:  # a table has at least the commit that made it
            msg = f"{table} has no history"
            raise LookupError(msg)
        return Commit(int(row["version"]), row["timestamp"])

    def table_id(self, spark: SparkSession, table: str) -> str | None:
        """What tells a table from one of its name that was made later."""
        if self.namespace.location(table) is not None:
            return DeltaRs(self.namespace).table_id(table)
        row = spark.sql(f"DESCRIBE DETAIL {self.namespace.identifier(table)}").select("id").first()
        return None if row is None else str(row["id"])

    def files_of(self, table: str, version: int | None = None) -> int | None:
        """How many files a table consists of at a version (the newest); None where only a query would tell."""
        location = self.namespace.location(table)
        if location is None:
            return None
        counted = files_of(location, _newest_in(location).version if version is None else version)
        if counted is not None:
            return counted
        with contextlib.suppress(Exception):  # whatever it was: nobody but who wants to know depends on it
            return DeltaRs(self.namespace).files(table, version)
        return None

    def change_files_of(self, table: str, version: int) -> int | None:
        """How many files of change data the commit of a version has; None where only a query would tell."""
        location = self.namespace.location(table)
        return None if location is None else change_files_of(location, version)

    def noted(self, spark: SparkSession, table: str, after: int) -> dict[str, int]:
        """The notes of the commits after a version that carry one (see ``append``), and how many rows each added."""
        many = self.newest(spark, table).version - after
        if many <= 0:
            return {}
        location = self.namespace.location(table)
        if location is not None:
            return notes_in(location, range(after + 1, after + 1 + many))
        history = spark.sql(f"DESCRIBE HISTORY {self.namespace.identifier(table)} LIMIT {many}")
        rows = history.where("userMetadata IS NOT NULL").select(
            "userMetadata", history["operationMetrics"]["numOutputRows"].cast("bigint").alias("rows")
        )
        return {row["userMetadata"]: row["rows"] or 0 for row in rows.collect()}

    def read(self, spark: SparkSession, table: str, version: int | None = None) -> DataFrame:
        """The table's rows, at its newest version or at a pinned one."""
        reader = spark.read if version is None else spark.read.option("versionAsOf", version)
        return reader.table(self.namespace.identifier(table))

    def look_up(self, table: str, values: Mapping[str, Collection[str]], version: int | None = None) -> pa.Table | None:
        """The rows that have one of some texts in a column, or in another column one of others.

        They are read without Spark, in a twentieth of the time; None where that cannot be: elsewhere than on this
        machine's disk, and in the cases of ``storage.look_up``.
        """
        found = looked_up(DeltaRs(self.namespace), table, values, version)
        if found is None:
            return None
        self.files_looked_up.add(found.files)
        return found.rows

    def part(self, table: str, condition: str = "true", version: int | None = None) -> Part | None:
        """Rows of a table, to be read and copied without Spark; None elsewhere than on this machine's disk."""
        if self.namespace.location(table) is None:
            return None
        return Part(DeltaRs(self.namespace), table, condition, version)

    def count(self, spark: SparkSession, table: str, version: int | None = None) -> int:
        """How many rows a table has; its log tells."""
        if self.namespace.location(table) is not None:
            with contextlib.suppress(Exception):  # whatever it was: Spark can tell, or says what is wrong
                return DeltaRs(self.namespace).count(table, version)
        return self.read(spark, table, version).count()

    def read_elsewhere(self, spark: SparkSession, source: str) -> DataFrame:
        """The rows of a Delta table that is not of this namespace: its folder or URI, or its name in the catalog."""
        if "/" in source:
            return spark.read.format("delta").load(source)
        return spark.read.table(source)

    def changes(self, spark: SparkSession, table: str, first: int = 0, last: int | None = None) -> DataFrame:
        """The table's change feed between two versions, both included; without a last one to the newest."""
        reader = spark.read.option("readChangeFeed", "true").option("startingVersion", first)
        reader = reader if last is None else reader.option("endingVersion", last)
        return reader.table(self.namespace.identifier(table))

    def appended(self, spark: SparkSession, table: str) -> DataFrame | None:
        """The rows of a table that only grows, in the form of its change feed; the time of a commit is left out.

        The feed does not reach back to the beginning: Delta reads it as far back as
        ``delta.deletedFileRetentionDuration`` says. None for a table whose rows do not know the commit that wrote them.
        """
        if self.namespace.location(table) is not None or self._properties(spark, table).get(TRACKED) != "true":
            return None
        return self.read(spark, table).selectExpr(
            "*",
            "'insert' AS _change_type",
            "_metadata.row_commit_version AS _commit_version",
            "CAST(NULL AS TIMESTAMP) AS _commit_timestamp",
        )

    def stream(self, spark: SparkSession, table: str, first: int, limit: str | None = None) -> DataFrame:
        """The table's change feed as a stream, from a version on.

        A checkpoint that exists goes on where it stopped. ``limit`` bounds a batch's bytes (``"64m"``).
        """
        reader = spark.readStream.option("readChangeFeed", "true").option("startingVersion", str(first))
        if limit is not None:
            reader = reader.option("maxBytesPerTrigger", limit)
        if "/" in table:  # a stream takes no path for a name
            return reader.format("delta").load(table)
        return reader.table(self.namespace.identifier(table))

    def stream_after(self, spark: SparkSession, table: str, version: int, limit: str | None = None) -> DataFrame:
        """The table's change feed as a stream, from the version that follows a given one.

        Where streams do not go on, that one must be there.
        """
        if not self.namespace.streams_go_on:
            return self.stream(spark, table, version + 1, limit)
        # A stream cannot start at a version that is still to come, so it starts at this one, and leaves it out.
        return self.stream(spark, table, version, limit).where(f"_commit_version > {version}")

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(
        self, rows: DataFrame, table: str, transaction: Transaction | None = None, *, note: str | None = None
    ) -> None:
        """Append rows in one commit; columns are matched by name. Skipped when the transaction is already there.

        The note stands in the table's history, as the commit's ``userMetadata``.
        """
        with self.namespace.commit_lock(table):
            self._append(rows, table, transaction, note)

    def append_held(
        self, spark: SparkSession, rows: pa.Table, table: str, transaction: Transaction | None = None
    ) -> None:
        """The same for rows of this process: on this machine's disk they are appended without Spark.

        Now and then Spark appends there too: it compacts tables that are compacted (``Layout.compacts``).
        """
        newest = self._newest_here(table)
        if newest is not None and (newest + 1) % CHECKPOINT_INTERVAL:
            DeltaRs(self.namespace).append(table, rows, transaction)
        else:
            self.append(frame_of(spark, rows), table, transaction)

    def delete(self, spark: SparkSession, table: str, condition: str, **values: str | datetime) -> None:
        """Delete the rows for which a SQL condition holds; ``{name}`` in it stands for one of the values."""
        statement = f"DELETE FROM {self.namespace.identifier(table)} WHERE {_with(condition, values)}"
        with self.namespace.commit_lock(table):
            self._retried(lambda: spark.sql(statement).collect())

    def update(
        self, spark: SparkSession, table: str, assignments: str, condition: str, **values: str | datetime
    ) -> None:
        """Change the rows for which a SQL condition holds; ``{name}`` stands for one of the values."""
        change = _with(f"SET {assignments} WHERE {condition}", values)
        with self.namespace.commit_lock(table):
            self._retried(lambda: spark.sql(f"UPDATE {self.namespace.identifier(table)} {change}").collect())

    def replace(self, rows: DataFrame, table: str, condition: str = "true") -> None:
        """Put these rows in the place of all for which a SQL condition holds, in one commit."""
        from pyspark.sql import functions as F

        with self.namespace.commit_lock(table):
            self._retried(lambda: rows.writeTo(self.namespace.identifier(table)).overwrite(F.expr(condition)))

    def upsert(  # noqa: PLR0913  a MERGE has that many parts
        self,
        rows: DataFrame,
        table: str,
        *,
        on: tuple[str, ...] = ("key",),
        compare: tuple[str, ...],
        also: tuple[str, ...] = (),
        keep: str,
        among: Collection[str] = (),
        ours: bool = False,
        part: Part | None = None,
        here: bool = False,
    ) -> Merged:
        """Bring the rows of some keys to a given state: one MERGE, which leaves equal rows untouched.

        ``rows`` has one row per value of ``on``, with all the columns and a boolean column named by ``keep``: a row
        that is not kept is deleted. Rows are equal when the columns in ``compare`` are; those in ``also`` change with
        them only.

        ``among`` are all values of the first column of ``on``, where they are few texts: files in which none of them
        may be are not read. Where nobody else writes the table (``ours``), the first rows of all are appended, which
        costs a fraction of a MERGE; where ``part`` is those of them that are kept, as a part of a table, without Spark.

        Rows that are made of what is on the driver (``here``) are merged without Spark where the table is on this
        machine's disk, in a third of the time or less, but for the cases of ``storage.merge_here``.
        """
        how = Upsert(on, compare, also, keep)
        location = self.namespace.location(table)
        with self.namespace.commit_lock(table):
            if ours and self._is_new(rows.sparkSession, table):
                return self._append_first(rows.where(quoted(keep)).select(*map(quoted, how.columns)), table, part)
            if here and location is not None:
                merged = merged_here(DeltaRs(self.namespace), table, collected(rows), how)
                if merged is not None:
                    return merged
            if any(kind.startswith(("struct", "array", "map")) for _, kind in rows.dtypes):
                rows = as_stored(rows, self.read(rows.sparkSession, table).schema)
            before = None if location is None else _newest_in(location).version
            statement = merge_statement(rows, self.namespace.identifier(table), how, among)
            (done,) = self._retried(lambda: rows.sparkSession.sql(statement, rows=rows).collect())
            counted = self._counted_since(table, before)
            copied, rewritten = (counted.get(name, 0) for name in ("numTargetRowsCopied", "numTargetFilesRemoved"))
            return Merged(int(done["num_affected_rows"]), copied, rewritten)

    def _append(self, rows: DataFrame, table: str, transaction: Transaction | None, note: str | None = None) -> None:
        """Append, under the lock of the table's commits."""
        writer = rows.writeTo(self.namespace.identifier(table))
        if transaction is not None:
            writer = writer.option("txnAppId", transaction.app_id).option("txnVersion", str(transaction.version))
        if note is not None:
            writer = writer.option("userMetadata", note)
        self._retried(writer.append)

    def _is_new(self, spark: SparkSession, table: str) -> bool:
        """Whether nothing was ever written to a table."""
        if table in self._used:
            return False
        self._used.add(table)
        if self.newest(spark, table).version:
            return False
        files = self.files_of(table)
        return self.read(spark, table).isEmpty() if files is None else not files

    def _append_first(self, rows: DataFrame, table: str, part: Part | None) -> Merged:
        # Whoever dies before this commit finds a new table again, and after it one that is not new any more. The
        # transaction is for one that was thought dead, and for a copy that failed when it was committed already.
        once = Transaction("first", 0)
        if part is None or not part.copied(rows.columns, table, once):
            self._append(rows, table, once)
        location = self.namespace.location(table)
        made = None if location is None else commit_of(location, _newest_in(location).version)
        return Merged(0 if made is None else made.rows)

    def _newest_here(self, table: str) -> int | None:
        """The newest version of a table on this machine's disk."""
        location = self.namespace.location(table)
        return None if location is None else _newest_in(location).version

    def _counted_since(self, table: str, before: int | None) -> dict[str, int]:
        """What the one commit since a version counted, by Delta's names; nothing where there was none, or elsewhere."""
        location = self.namespace.location(table)
        if location is None or (newest := _newest_in(location).version) == before:
            return {}
        return metrics_of(location, newest)

    def _properties(self, spark: SparkSession, table: str) -> dict[str, str]:
        rows = spark.sql(f"SHOW TBLPROPERTIES {self.namespace.identifier(table)}").collect()
        return {row["key"]: row["value"] for row in rows}

    def _retried(self, statement: Callable[[], Result]) -> Result:
        """Run a statement again, with growing pauses, while others commit first."""
        from pyspark.errors import PySparkException

        for attempt in range(1, _CONFLICT_ATTEMPTS):
            try:
                return statement()
            except PySparkException as error:
                if not any(sign in str(error) for sign in _CONFLICTS):
                    raise
                self.conflicts.add(1)
                time.sleep(0.1 * 2**attempt)
        return statement()


def _asked_again(question: Callable[[], Result]) -> Result:
    """What a catalog answers. A long answer breaks off now and then, and its client raises errors of any kind."""
    for _ in range(_ANSWERS_LOST):
        with contextlib.suppress(Exception):
            return question()
    return question()


def _is_delta(location: Path) -> bool:
    """Whether a table was committed there; a kill may leave an empty log folder behind."""
    return any((location / "_delta_log").glob("*.json"))


def _newest_in(location: Path) -> Commit:
    """The newest version of a table on this machine's disk, as its log has it: no Spark job for what a name tells.

    Raises SetupError for a table that is gone.
    """
    commits = (location / "_delta_log").glob("?" * 20 + ".json")
    newest = max(commits, key=lambda commit: commit.name, default=None)
    if newest is None:
        raise table_gone(location)
    return Commit(int(newest.stem), datetime.fromtimestamp(newest.stat().st_mtime, tz=timezone.utc))


def _with(text: str, values: Mapping[str, str | datetime]) -> str:
    """SQL text with values in it; neither DELETE nor UPDATE of Delta takes parameters."""
    literals = {
        name: literal(value) if isinstance(value, str) else f"TIMESTAMP_MICROS({round(value.timestamp() * 1_000_000)})"
        for name, value in values.items()
    }
    return text.format(**literals)


def creation(identifier: str, layout: Layout, place: str | None, *, in_catalog: bool) -> str:
    """The statement that creates a table, unless it is there; at a place of its own, or where the catalog wants it."""
    properties = layout.properties | (TRACKING if in_catalog and layout.only_appended else {})
    location = f" LOCATION {literal(place)}" if place is not None else ""
    return (
        f"CREATE TABLE IF NOT EXISTS {identifier} ({layout.columns}) USING DELTA{location}"
        f" TBLPROPERTIES ({_listed(properties)})"
    )


def _listed(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())

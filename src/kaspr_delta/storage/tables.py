"""The Delta tables of one application: the contract, and how Spark keeps it.

``Tables`` uses Spark's SQL and DataFrame API alone, which classic Spark, Spark Connect and serverless run alike.
``storage.native`` overrides what delta-rs does faster in a folder, here or in a bucket. ``storage.opening`` chooses one
of the two by the namespace. Lags, pages and commands without Spark read such folders by ``storage.native`` directly,
and schemas of Unity Catalog by ``storage.warehouse``.

Each method takes the session it works on: inside ``foreachBatch`` that must be the batch's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.types as pt

from kaspr_delta.errors import SetupError, UsageError, first_line
from kaspr_delta.functions.column_paths import Path
from kaspr_delta.plan.names import INTERNAL_SCHEMA_MARK, is_channel
from kaspr_delta.spec.ddl import Column, Type, columns_of_json, quoted
from kaspr_delta.storage.arrow_types import collected, frame_of
from kaspr_delta.storage.dialect import SPARK
from kaspr_delta.storage.layout import MAPPED, RESOURCES, TRACKED, Layout, needs_mapping
from kaspr_delta.storage.limits import Limits, Size
from kaspr_delta.storage.namespace import Namespace
from kaspr_delta.storage.spark.description import Description
from kaspr_delta.storage.spark.look_up import having
from kaspr_delta.storage.spark.merge import as_stored, merge_statement
from kaspr_delta.storage.spark.sql_text import alterations, creation, listed
from kaspr_delta.storage.statistics import Statistics, asked_again, retried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from typing_extensions import Self

# The metric of a commit with the number of its change data files.
_CHANGE_FILES = "numAddedChangeFiles"

Result = TypeVar("Result")

Frame: TypeAlias = "pa.Table | DataFrame"
"""Rows: an Arrow table on the driver, or a DataFrame."""

Texts: TypeAlias = Mapping[str, Collection[str]]
"""Texts by column. A row matches if it has one of the texts in one of the columns."""

Value: TypeAlias = str | int | datetime | tuple[str, ...]
"""A value that stands for ``{name}`` in SQL; each backend writes it in its own dialect. Texts are a list for IN."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of a table, the time of its commit and, if that is known, the number of its change data files."""

    version: int
    at: datetime
    change_files: int | None = field(default=None, compare=False)

    @property
    def time(self) -> str:
        """The time in UTC, as text."""
        return self.at.astimezone(timezone.utc).isoformat()


@dataclass(frozen=True, slots=True)
class Upsert:
    """How rows are merged into a table: one row for each value of ``on``; it is deleted where ``keep`` is false.

    A stored row that equals the new one in the ``compare`` columns is not touched. The ``also`` columns are written
    when a ``compare`` column differs. ``sole_writer``: no other process writes to the table. Rows of a new table
    are then appended, which costs a fraction of a MERGE. (In a catalog only many rows are.)
    """

    compare: tuple[str, ...]
    keep: str
    on: tuple[str, ...] = ("key",)
    also: tuple[str, ...] = ()
    sole_writer: bool = False

    @property
    def changed(self) -> tuple[str, ...]:
        """The columns that an update sets."""
        return *self.compare, *self.also

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that an insert sets."""
        return *self.on, *self.changed


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge: the number of rows that changed, and its cost.

    ``copied`` rows stood in a rewritten file and did not change; ``rewritten`` is the number of such files. A number
    that a backend does not report is 0.
    """

    rows: int
    copied: int = 0
    rewritten: int = 0


@dataclass(frozen=True)
class Scan:
    """The rows of a table, at one version or the newest, for which SQL conditions hold.

    ``all_rows`` reads the table in Spark.
    """

    all_rows: Callable[[], DataFrame]
    conditions: tuple[tuple[str, Mapping[str, Value]], ...] = ()

    @property
    def reads_files(self) -> bool:
        """Whether the scan is answered without Spark, from the files: in a fraction of the time."""
        return False

    @property
    def df(self) -> DataFrame:
        """The rows in Spark."""
        df = self.all_rows()
        for condition, values in self.conditions:
            df = df.where(SPARK.filled(condition, values))
        return df

    def where(self, condition: str, **values: Value) -> Self:
        """The rows of this scan for which another condition holds too."""
        return replace(self, conditions=(*self.conditions, (condition, values)))

    def rows(self, columns: Sequence[str], limit: int | None = None) -> pa.Table:
        """Columns of up to ``limit`` rows, or of all, on the driver."""
        rows = self.df.select(*map(quoted, columns))
        return collected(rows if limit is None else rows.limit(limit))

    def count_by(self, columns: Sequence[str]) -> dict[tuple[Any, ...], int]:
        """The number of rows for each combination of values."""
        return {tuple(row)[:-1]: row["count"] for row in self.df.groupBy(*columns).count().collect()}

    def aggregate(self, expressions: str, **values: Value) -> tuple[Any, ...]:
        """The values of SQL aggregates over the rows."""
        (found,) = self.df.selectExpr(f"struct({SPARK.filled(expressions, values)}) AS found").collect()
        return tuple(found["found"])


@dataclass(frozen=True, slots=True)
class Transaction:
    """Delta's transaction identifier: an append is skipped if the table has this version or a greater one."""

    app_id: str
    version: int


FIRST_ROWS = Transaction("first", 0)
"""The transaction that fills a new table of a sole writer."""


@dataclass(frozen=True)
class Tables:
    """The Delta tables of one namespace.

    Conditions and aggregates are SQL that Spark and DataFusion read alike: names that need no quotes, and ``{name}``
    for each value.
    """

    namespace: Namespace
    limits: Limits = field(default_factory=Limits, compare=False)
    statistics: Statistics = field(default_factory=Statistics, compare=False)
    # Tables whose first merge in this process has begun: they count as filled.
    _filled: set[str] = field(default_factory=set, compare=False, repr=False)
    # Tables that were created since they were declared last.
    _created: set[str] = field(default_factory=set, compare=False, repr=False)
    # Tables that were described, and the policies that apply to some.
    _described: set[str] = field(default_factory=set, compare=False, repr=False)
    _policies: dict[str, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)
    # By table the version that the next batch of a stream pins.
    _pins: dict[str, Commit] = field(default_factory=dict, compare=False, repr=False)
    # Names of tables and views that the catalog listed.
    _listed: set[str] = field(default_factory=set, compare=False, repr=False)
    # Channels that lie beside results though internal tables have a schema of their own.
    _beside: set[str] = field(default_factory=set, compare=False, repr=False)

    # -- create --------------------------------------------------------------------------------------------------------

    def create_schema(self, spark: SparkSession) -> None:
        """Create the schema unless it exists, and list its tables: ``create`` leaves these alone.

        The same for a schema of internal tables. A user who may only use a schema needs no right to create one. Raises
        UsageError if the internal tables are in another schema than the namespace says.
        """
        schema, internal = self.namespace.schema, self.namespace.internal
        there = self._existing_in(spark, schema)
        if (RESOURCES if internal else INTERNAL_SCHEMA_MARK) in there:
            where = "beside its results" if internal else f"elsewhere, see {schema}.{INTERNAL_SCHEMA_MARK}"
            raise UsageError(
                f"the internal tables of {schema} are {where}, and do not move: name the warehouse as when it was made"
            )
        self._listed.clear()
        self._beside.clear()
        if internal is not None:
            self._listed.update(found := self._existing_in(spark, internal))
            mark = f"{schema}.{quoted(INTERNAL_SCHEMA_MARK)}"
            if INTERNAL_SCHEMA_MARK not in there:  # before any table: see above
                spark.sql(f"CREATE VIEW IF NOT EXISTS {mark} AS SELECT {SPARK.text(internal)} AS schema")
            elif RESOURCES not in found:
                self._check_mark(spark, mark)
            self._beside.update(filter(is_channel, there))
            there -= self._beside
        self._listed.update(there)

    def _check_mark(self, spark: SparkSession, mark: str) -> None:
        (named,) = spark.sql(f"SELECT schema FROM {mark}").collect()
        if named["schema"] != self.namespace.internal:
            raise UsageError(
                f"the internal tables of {self.namespace.schema} are in {named['schema']}, and do not move: name the"
                " warehouse as when it was made"
            )

    def _existing_in(self, spark: SparkSession, schema: str) -> set[str]:
        """The tables and views of a schema, which is created unless it exists."""
        found: set[str] | None = None
        if self.namespace.on_databricks:  # there it exists, but for the first run
            with contextlib.suppress(
                Exception
            ):  # it is missing, or the answer broke off: each catalog has its own error
                found = _listed_in(spark, schema)
        exists = found is not None or spark.catalog.databaseExists(schema)
        for statement in self.namespace.creation(schema, exists=exists):
            spark.sql(statement)
        if found is None:
            found = asked_again(lambda: _listed_in(spark, schema)) if exists else set()
        return found

    def create(self, spark: SparkSession, table: str, layout: Layout) -> None:
        """Create the table, or register one that exists in its folder already.

        Raises SetupError for a channel beside results whose place is among internal tables.
        """
        if table in self._beside:
            there, here = f"{self.namespace.schema}.{quoted(table)}", self.namespace.identifier(table)
            raise SetupError(
                f"its channel is in two schemas, {there} and {here}: drop or rename the one without its state"
                if table in self._listed
                else "its channel is beside results, where an earlier version put it: pause all jobs, and let its owner"
                f" run ALTER TABLE {there} RENAME TO {here}"
            )
        if table not in self._listed:
            # Tasks of a job that start side by side all create the tables that are missing.
            statement = creation(self.namespace, table, layout, self.namespace.properties_of(layout))
            self._retried(lambda: spark.sql(statement))
            self._created.add(table)

    def ensure(self, spark: SparkSession, table: str, layout: Layout) -> None:
        """Create the table before a first row, where tables are not all created when an application is opened."""

    def is_known(self, table: str) -> bool:
        """Whether the table exists, as far as no statement tells: in a catalog, when its schema was listed."""
        return table in self._listed

    def was_created(self, table: str) -> bool:
        """Whether the table was created here, and not declared since."""
        return table in self._created

    def declare(self, spark: SparkSession, table: str, layout: Layout) -> list[str]:
        """Give a table the comment, properties, clustering, tags and key of its layout, as far as it has not got them.

        Returns a sentence for each part that the catalog refused.
        """
        from pyspark.errors import PySparkException

        refused = []
        described = None if table in self._created else self.describe(spark, table)
        for part, statements in alterations(self.namespace, table, layout, described):
            try:
                for statement in statements:
                    self._commit(spark, table, statement)
            except PySparkException as error:
                refused.append(f"'{part}' of '{table}' was refused: {first_line(error)}")
        self._created.discard(table)
        return refused

    def has_layout(self, table: str, layout: Layout) -> bool:  # noqa: ARG002
        """Whether a table has the columns and properties of a layout, as far as that is known without Spark."""
        return False

    def named_key(self, spark: SparkSession, table: str) -> str | None:  # noqa: ARG002
        """The property KEY of a table; None without it, as in a catalog."""
        return None

    def set_properties(self, spark: SparkSession, table: str, properties: Mapping[str, str]) -> None:
        """Set table properties, unless the table has them."""
        has = self._properties(spark, table)
        if any(has.get(name) != value for name, value in properties.items()):
            change = f"ALTER TABLE {self.namespace.identifier(table)} SET TBLPROPERTIES ({listed(properties)})"
            self._commit(spark, table, change)

    def add_columns(self, spark: SparkSession, table: str, columns: Sequence[tuple[Path, Type]]) -> None:
        """Add columns, and fields of columns, by their paths."""
        if needs_mapping(Column(name, kind) for path, kind in columns for name in path):
            self.set_properties(spark, table, MAPPED)
        added = ", ".join(f"{'.'.join(map(quoted, path))} {kind}" for path, kind in columns)
        self._commit(spark, table, f"ALTER TABLE {self.namespace.identifier(table)} ADD COLUMNS ({added})")

    def create_view(  # noqa: PLR0913, PLR0917  the view, and its parts
        self,
        spark: SparkSession,
        view: str,
        table: str,
        columns: Mapping[str, str],
        instead: str | None = None,
        only: str = "",
    ) -> None:
        """Create a view over a table unless it exists. ``columns``: column name to SQL expression.

        Rows of the table ``instead`` stand for those with the same key; without ``keep`` they only hide them. ``only``
        is the condition for rows of a table that is shown alone.
        """
        if view in self._listed:
            return
        selected = ", ".join(f"{expression} AS {quoted(name)}" for name, expression in columns.items())
        select = f"SELECT {selected} FROM {self.namespace.identifier(table)}"
        if only:
            select += f" WHERE {only}"
        if instead is not None:
            other = self.namespace.identifier(instead)
            select += (
                f" AS old WHERE NOT EXISTS (SELECT 1 FROM {other} AS new WHERE new.key <=> old.key)"
                f" UNION ALL SELECT {selected} FROM {other} WHERE keep"
            )
        spark.sql(f"CREATE VIEW IF NOT EXISTS {self.namespace.identifier(view)} AS {select}")

    def drop(self, spark: SparkSession, table: str) -> None:
        """Remove a table and its rows, for good. The folder of an external table stays, with its history."""
        names = [self.namespace.identifier(table)] if table not in self._beside or table in self._listed else []
        names += [f"{self.namespace.schema}.{quoted(table)}"] if table in self._beside else []
        for name in names:
            if self.files_stay_at(table) is not None and (table in self._beside or self.exists(spark, table)):
                self._commit(spark, table, f"DELETE FROM {name}")
            spark.sql(f"DROP TABLE IF EXISTS {name}")
        self._listed.discard(table)
        self._beside.discard(table)

    def files_stay_at(self, table: str) -> str | None:
        """The location of the files that ``drop`` leaves there, those of an external table; None: it removes them."""
        return self.namespace.declared_location(table)

    @property
    def keeps_views(self) -> bool:
        """Whether views outlive the session."""
        return True

    def drop_view(self, spark: SparkSession, view: str) -> None:
        """Remove a view."""
        self._listed.discard(view)
        spark.sql(f"DROP VIEW IF EXISTS {self.namespace.identifier(view)}")

    def use(self, spark: SparkSession) -> None:
        """Make the schema the current one, so that SQL may name tables without it."""
        spark.sql(f"USE {self.namespace.schema}")

    # -- pin and describe ----------------------------------------------------------------------------------------------

    def newest(self, spark: SparkSession, table: str) -> Commit:
        """The newest version. Raises an error where there is no table."""
        return self.newest_commits(spark, table, 1)[0]

    def pin(self, spark: SparkSession, table: str, upto: int | None) -> Commit:
        """The version to pin for a batch that has read the feed up to a version; None: it is not known.

        The newest one. Of a table that is pinned (see ``pinning``) it is that version, as long as batches have read no
        further: so over a catalog a batch of a stream that ends makes no statement for it.
        """
        pin = self._pins.get(table)
        if pin is None or upto is None or pin.version < upto:
            pin = self.newest(spark, table)
            if table in self._pins:  # a later batch must not see an older version than this one
                self._pins[table] = pin
        return pin

    def pinning(self, commits: Mapping[str, Commit]) -> Self:
        """These tables for a stream that begins when these are the newest commits, and for its batches if it ends."""
        return replace(self, _pins=dict(commits))

    def newest_commits(self, spark: SparkSession, table: str, most: int) -> list[Commit]:
        """The newest commits, the newest first. A table has at least the commit that created it."""
        history = spark.sql(f"DESCRIBE HISTORY {self.namespace.identifier(table)} LIMIT {most}")
        rows = history.select("version", "timestamp", f"operationMetrics.{_CHANGE_FILES}").collect()
        commits = (Commit(version, at, None if files is None else int(files)) for version, at, files in rows)
        return sorted(commits, key=lambda commit: commit.version, reverse=True)

    def exists(self, spark: SparkSession, table: str) -> bool:
        """Whether the table exists."""
        from pyspark.errors import AnalysisException

        try:
            return spark.catalog.tableExists(self.namespace.identifier(table))
        except AnalysisException:  # its schema does not exist
            return False

    def columns(self, spark: SparkSession, table: str) -> tuple[Column, ...]:
        """The columns of the table. In a folder it need not be registered yet."""
        return columns_of_json(self.read(spark, table).schema.jsonValue()["fields"])

    def describe(self, spark: SparkSession, table: str) -> Description | None:
        """The description of the table, or of a view; None if there is neither."""
        from pyspark.errors import AnalysisException

        # Of a table that is missing classic Spark writes a page to standard error. One that was there is not asked for.
        if table not in self._described and not self.exists(spark, table):
            return None
        try:
            rows = spark.sql(f"DESCRIBE TABLE EXTENDED {self.namespace.identifier(table)}").collect()
        except AnalysisException:
            if self.exists(spark, table):
                raise
            return None
        self._described.add(table)
        return Description.of(rows)

    def policies(self, spark: SparkSession, table: str) -> tuple[str, ...]:
        """The names of attribute policies of Databricks that apply to a table, also those of its schema and catalog.

        There are none elsewhere, and where they may not be seen. A process asks once for each table.
        """
        from pyspark.errors import PySparkException

        if not self.namespace.on_databricks or "/" in table:
            return ()
        if table not in self._policies:
            statement = f"SHOW EFFECTIVE POLICIES ON TABLE {self.namespace.identifier(table)}"
            try:
                self._policies[table] = tuple(str(row[0]) for row in spark.sql(statement).collect())
            except PySparkException:  # no Databricks, or an older runtime
                self._policies[table] = ()
        return self._policies[table]

    def reads_changes(self, spark: SparkSession, table: str) -> bool:
        """Whether changes can be read though no property turns the change data feed on: reads those of one commit.

        Databricks makes the feed of a table with row tracking by itself, from Runtime 18 on.
        """
        from pyspark.errors import PySparkException

        try:
            newest = self.newest(spark, table).version
            self.changes(spark, table, newest, newest).select("_change_type").limit(1).collect()
        except PySparkException:
            return False
        return True

    def table_id(self, spark: SparkSession, table: str) -> str | None:
        """Delta's id of the table, which changes where it is created anew. Without a table None, or Spark's error."""
        (detail,) = spark.sql(f"DESCRIBE DETAIL {self.namespace.identifier(table)}").select("id").collect()
        return str(detail["id"])

    def count(self, spark: SparkSession, table: str, version: int | None = None) -> int:
        """The number of rows at a version, or at the newest one."""
        return self.read(spark, table, version).count()

    def change_file_count(self, table: str, version: int) -> int | None:  # noqa: ARG002
        """The number of change data files in the commit of a version; None where only a query could tell."""
        return None

    def clean_log(self, table: str) -> None:
        """Remove old commits of a table that nobody follows, if they are many. In a catalog the platform does that."""

    def clean_followed_log(self, table: str, kept: int | None, needed: Callable[[], Mapping[str, int]]) -> None:
        """The same for a topic or channel. Its rows can still be read in their order, see ``changes``.

        Commits are kept for ``kept`` milliseconds, and for streams, unless these are far behind: ``needed`` has the
        first version that a stream needs, by the id of a table.
        """

    def as_they_are(self, versions: Mapping[str, int]) -> Tables | None:  # noqa: ARG002
        """Tables whose streams end, as batches, at these versions by table; None if only streams can be read."""
        return None

    def notes(self, spark: SparkSession, table: str, after: int) -> dict[str, int]:
        """The notes of the commits after a version (see ``append``), with the number of rows that each added."""
        count = self.newest(spark, table).version - after
        if count <= 0:
            return {}
        history = spark.sql(f"DESCRIBE HISTORY {self.namespace.identifier(table)} LIMIT {count}")
        rows = history.where("userMetadata IS NOT NULL").select(
            "userMetadata", history["operationMetrics"]["numOutputRows"].cast("bigint").alias("rows")
        )
        return {row["userMetadata"]: row["rows"] or 0 for row in rows.collect()}

    # -- read ----------------------------------------------------------------------------------------------------------

    def read(self, spark: SparkSession, table: str, version: int | None = None) -> DataFrame:
        """The rows at a version, or at the newest one."""
        reader = spark.read if version is None else spark.read.option("versionAsOf", version)
        return reader.table(self.namespace.identifier(table))

    def read_elsewhere(self, spark: SparkSession, source: str) -> DataFrame:
        """The rows of a Delta table outside this namespace: by its folder or URI, or by its name in the catalog."""
        if "/" in source:
            return spark.read.format("delta").load(source)
        return spark.read.table(source)

    def query(self, spark: SparkSession, table: str, sql: str, **values: Value) -> list[dict[str, Any]]:
        """The rows of a SELECT over a small table, which the SELECT calls ``t``; times are in UTC."""
        rows = spark.sql(_from(SPARK.filled(sql, values), "t"), t=self.read(spark, table)).collect()
        return [_in_utc(row) for row in rows]

    def query_each(self, spark: SparkSession, selects: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
        """The rows of a SELECT over each of some tables, as in ``query``. All have the same columns: one statement."""
        return _together(spark, {table: (self.read(spark, table), sql) for table, sql in selects.items()})

    def changed_since(self, spark: SparkSession, known: Mapping[str, Commit]) -> Collection[str]:
        """The tables with rows in their change data feed after a commit, or in another commit of its version.

        It is one statement, which reads no file of the feed. A commit without changed rows, such as that of OPTIMIZE,
        is not seen, and neither is a table that took another one's place if its commit of that version is such a one.
        If a feed cannot be read, it is all tables.
        """
        from pyspark.errors import PySparkException

        other = "SELECT 1 FROM t WHERE _commit_version > {version} OR _commit_timestamp <> {at} LIMIT 1"
        try:
            feeds = {
                table: (
                    self.changes(spark, table, commit.version),
                    SPARK.filled(other, {"version": commit.version, "at": commit.at.astimezone(timezone.utc)}),
                )
                for table, commit in known.items()
            }
            found = _together(spark, feeds)
        except PySparkException:  # as where commits were removed, or the columns were changed
            return known.keys()
        return [table for table, rows in found.items() if rows]

    def scan(self, spark: SparkSession, table: str, version: int | None = None) -> Scan:
        """A scan of all rows at a version, or at the newest one."""
        rows = self.read(spark, table, version)
        return Scan(lambda: rows)

    def look_up(self, spark: SparkSession, table: str, texts: Texts, version: int | None = None) -> Frame:
        """The rows that match: on the driver where they were read without Spark."""
        return having(self.read(spark, table, version), texts, self.limits)

    def changes(self, spark: SparkSession, table: str, first: int = 0, last: int | None = None) -> DataFrame:
        """The change data feed between two versions, both included; by default up to the newest."""
        reader = spark.read.option("readChangeFeed", "true").option("startingVersion", first)
        reader = reader if last is None else reader.option("endingVersion", last)
        return reader.table(self.namespace.identifier(table))

    def changes_here(
        self,
        table: str,  # noqa: ARG002
        first: int,  # noqa: ARG002
        last: int,  # noqa: ARG002
        most: Size,  # noqa: ARG002
        columns: Sequence[str] | None = None,  # noqa: ARG002
    ) -> pa.Table | None:
        """The change data feed between two versions, both included, without Spark: all columns, or some of the table.

        None if only Spark reads it, or if it is more than ``most``.
        """
        return None

    def appended_rows(self, spark: SparkSession, table: str) -> DataFrame | None:
        """The rows of an append-only table in the form of its change data feed, without commit times.

        Delta reads the feed only as far back as ``delta.deletedFileRetentionDuration``; this reaches the beginning.
        None for a table without row tracking.
        """
        if self._properties(spark, table).get(TRACKED) != "true":
            return None
        return self.read(spark, table).selectExpr(
            "*",
            "'insert' AS _change_type",
            "_metadata.row_commit_version AS _commit_version",
            "CAST(NULL AS TIMESTAMP) AS _commit_timestamp",
        )

    def stream(self, spark: SparkSession, table: str, first: int, limit: str | None = None) -> DataFrame:
        """The change data feed as a stream, from a version on. A checkpoint that exists goes on where it stopped.

        ``limit`` is the most bytes of a batch (``"64m"``). A stream cannot begin at a version that is not there yet: of
        a pinned table it begins at the pinned version then, and the caller leaves out the rows that were read.
        """
        if table in self._pins:
            first = min(first, self._pins[table].version)
        reader = spark.readStream.option("readChangeFeed", "true").option("startingVersion", str(first))
        if limit is not None:
            reader = reader.option("maxBytesPerTrigger", limit)
        if "/" in table:  # a stream takes no path for a name
            return reader.format("delta").load(table)
        return reader.table(self.namespace.identifier(table))

    def stream_after(self, spark: SparkSession, table: str, version: int, limit: str | None = None) -> DataFrame:
        """The same from ``version + 1`` on. In a folder, or if the table is pinned, it need not be there yet."""
        # A continued stream always began at the last version that was read.
        first = version if self.namespace.streams_go_on else version + 1
        return self.stream(spark, table, first, limit).where(f"_commit_version > {version}")

    # -- write ---------------------------------------------------------------------------------------------------------

    def append(
        self,
        spark: SparkSession,
        rows: Frame,
        table: str,
        transaction: Transaction | None = None,
        *,
        note: str | None = None,
    ) -> None:
        """Append rows in one commit; columns are matched by name. Skipped if the table has the transaction already.

        The note becomes the ``userMetadata`` of the commit.
        """
        self._alone(spark, table, lambda: self._append(spark, rows, table, transaction, note))

    def merge(
        self, spark: SparkSession, rows: Frame, table: str, upsert: Upsert, copied_from: Scan | None = None
    ) -> Merged:
        """Merge rows into a table in one commit. Rows have the columns of ``upsert`` and its boolean ``keep``.

        ``copied_from`` is a scan of another table that gives the rows with ``keep``: a backend may copy them into a new
        table instead of writing ``rows``.
        """

        def written() -> Merged:
            if upsert.sole_writer and self._is_worth_filling(rows) and self._is_new(spark, table):
                return self._fill(spark, rows, table, upsert, copied_from)
            return self._merge(spark, rows, table, upsert)

        return self._alone(spark, table, written)

    def replace(self, spark: SparkSession, rows: Frame, table: str, condition: str = "true", **values: Value) -> None:
        """Replace all rows for which a condition holds by these, in one commit."""
        from pyspark.sql import functions as F

        df = _in_spark(spark, rows)  # before any column of Spark is made, for which a session must run
        replaced = F.expr(SPARK.filled(condition, values))

        def overwritten() -> None:
            writer = df.writeTo(self.namespace.identifier(table))
            self._retried(lambda: writer.overwrite(replaced))

        self._alone(spark, table, overwritten)

    def delete(self, spark: SparkSession, table: str, condition: str, **values: Value) -> None:
        """Delete the rows for which a condition holds."""
        statement = f"DELETE FROM {self.namespace.identifier(table)} WHERE {SPARK.filled(condition, values)}"
        self._commit(spark, table, statement)

    def update(self, spark: SparkSession, table: str, assignments: str, condition: str, **values: Value) -> None:
        """Change the rows for which a condition holds."""
        change = SPARK.filled(f"SET {assignments} WHERE {condition}", values)
        self._commit(spark, table, f"UPDATE {self.namespace.identifier(table)} {change}")

    def _commit(self, spark: SparkSession, table: str, statement: str) -> None:
        self._alone(spark, table, lambda: self._retried(lambda: spark.sql(statement).collect()))

    def _alone(self, spark: SparkSession, table: str, operation: Callable[[], Result]) -> Result:  # noqa: ARG002
        """The result of an operation under the lock of the table's commits."""
        with self.namespace.commit_lock(table):
            return operation()

    # The methods from here to ``_merge`` are called under the lock of the table's commits.

    def _append(
        self, spark: SparkSession, rows: Frame, table: str, transaction: Transaction | None, note: str | None
    ) -> None:
        writer = _in_spark(spark, rows).writeTo(self.namespace.identifier(table))
        if transaction is not None:
            writer = writer.option("txnAppId", transaction.app_id).option("txnVersion", str(transaction.version))
        if note is not None:
            writer = writer.option("userMetadata", note)
        self._retried(writer.append)

    def _fill(self, spark: SparkSession, rows: Frame, table: str, upsert: Upsert, copied_from: Scan | None) -> Merged:  # noqa: ARG002
        """Append the first rows of a table. After a kill before this commit the table is still new, after it it is not.

        The transaction stops a second writer whose process was taken for dead.
        """
        first = _in_spark(spark, rows).where(quoted(upsert.keep)).select(*map(quoted, upsert.columns))
        self._append(spark, first, table, FIRST_ROWS, None)
        return Merged(0)

    def _merge(self, spark: SparkSession, rows: Frame, table: str, upsert: Upsert) -> Merged:
        keys = _few_texts(rows, upsert.on[0], self.limits)
        df = _in_spark(spark, rows)
        if any(kind.startswith(("struct", "array", "map")) for _, kind in df.dtypes):
            df = as_stored(df, self.read(spark, table).schema)
        statement = merge_statement(df, self.namespace.identifier(table), upsert, keys)
        (done,) = self._retried(lambda: df.sparkSession.sql(statement, rows=df).collect())
        return Merged(int(done["num_affected_rows"]))

    def _is_worth_filling(self, rows: Frame) -> bool:
        """Whether to ask if a table is new: for few rows the question takes more jobs than an append saves."""
        return not isinstance(rows, pa.Table)

    def _is_new(self, spark: SparkSession, table: str) -> bool:
        """Whether no row was ever written to a table."""
        if table in self._filled:
            return False
        self._filled.add(table)
        if self.newest(spark, table).version:
            return False
        first, *_ = self.columns(spark, table)
        return not self.scan(spark, table).rows([first.name], 1).num_rows

    def _properties(self, spark: SparkSession, table: str) -> dict[str, str]:
        rows = spark.sql(f"SHOW TBLPROPERTIES {self.namespace.identifier(table)}").collect()
        return {row["key"]: row["value"] for row in rows}

    def _retried(self, statement: Callable[[], Result]) -> Result:
        return retried(statement, self.statistics)


def _listed_in(spark: SparkSession, schema: str) -> set[str]:
    """The tables and views of a schema. One listing: a statement for each of them takes ten times as long."""
    return {row["tableName"] for row in spark.sql(f"SHOW TABLES IN {schema}").collect() if not row["isTemporary"]}


def _in_spark(spark: SparkSession, rows: Frame) -> DataFrame:
    return frame_of(spark, rows) if isinstance(rows, pa.Table) else rows


def _few_texts(rows: Frame, column: str, limits: Limits) -> list[str]:
    """The texts in a column, if they are on the driver and few; else none. Delta skips files that have none of them."""
    if not isinstance(rows, pa.Table) or rows.num_rows > limits.listed_texts or not pt.is_string(rows[column].type):
        return []
    texts: list[str] = rows[column].unique().drop_null().to_pylist()
    return texts


def _from(sql: str, name: str) -> str:
    """A SELECT over ``t`` as a text for ``SparkSession.sql``, to which the rows are given by this name."""
    return sql.replace("{", "{{").replace("}", "}}").replace("FROM t", f"FROM {{{name}}}")


def _together(spark: SparkSession, selects: Mapping[str, tuple[DataFrame, str]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of SELECTs, each over rows that it calls ``t``, by one statement. All have the same columns."""
    names = {label: f"t{number}" for number, label in enumerate(selects)}
    union = " UNION ALL ".join(
        f"SELECT {SPARK.text(label)} AS of_table, * FROM ({_from(sql, names[label])})"
        for label, (_, sql) in selects.items()
    )
    given: dict[str, Any] = {names[label]: rows for label, (rows, _) in selects.items()}
    found: dict[str, list[dict[str, Any]]] = {label: [] for label in selects}
    for row in map(_in_utc, spark.sql(union, **given).collect()):
        found[row.pop("of_table")].append(row)
    return found


def _in_utc(row: Row) -> dict[str, Any]:
    """The values of a row by column. PySpark returns local times without a zone."""
    return {
        name: value.astimezone(timezone.utc) if isinstance(value, datetime) else value
        for name, value in row.asDict().items()
    }

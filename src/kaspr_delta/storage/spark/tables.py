"""Delta tables by Spark's SQL and DataFrame API alone, which classic Spark, Spark Connect and serverless run alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.types as pt

from kaspr_delta.functions.column_paths import Path
from kaspr_delta.spec.ddl import Column, Type, columns_of_json, quoted
from kaspr_delta.storage.layout import CHANGE_FEED, MAPPED, TRACKED, Layout, needs_mapping
from kaspr_delta.storage.limits import Limits
from kaspr_delta.storage.namespace import Namespace
from kaspr_delta.storage.spark.frames import frame_of
from kaspr_delta.storage.spark.look_up import having
from kaspr_delta.storage.spark.merge import as_stored, merge_statement
from kaspr_delta.storage.spark.retries import asked_again, retried
from kaspr_delta.storage.spark.scan import SparkScan
from kaspr_delta.storage.spark.sql_text import creation, listed, with_values
from kaspr_delta.storage.statistics import Statistics
from kaspr_delta.storage.tables import Commit, Frame, Merged, Scan, Texts, Transaction, Upsert, Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Result = TypeVar("Result")

FIRST_ROWS = Transaction("first", 0)
"""The transaction that fills a new table of a sole writer."""


@dataclass(frozen=True)
class SparkTables:
    """Implements Tables. The catalog knows the tables."""

    namespace: Namespace
    limits: Limits = field(default_factory=Limits, compare=False)
    statistics: Statistics = field(default_factory=Statistics, compare=False)
    # Tables that `_is_new` was asked about: they count as filled from then on.
    _filled: set[str] = field(default_factory=set, compare=False, repr=False)
    # Names of tables and views that the catalog listed.
    _listed: set[str] = field(default_factory=set, compare=False, repr=False)

    # -- create --------------------------------------------------------------------------------------------------------

    def create_schema(self, spark: SparkSession) -> None:
        if not spark.catalog.databaseExists(self.namespace.schema):
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {self.namespace.schema}")
            return
        # One listing: a statement for each table and view takes ten times as long.
        found = asked_again(lambda: spark.sql(f"SHOW TABLES IN {self.namespace.schema}").collect())
        self._listed.clear()
        self._listed.update(row["tableName"] for row in found if not row["isTemporary"])

    def create(self, spark: SparkSession, table: str, layout: Layout) -> None:
        if table not in self._listed:
            # Tasks of a job that start side by side all create the tables that are missing.
            self._retried(lambda: spark.sql(creation(self.namespace, table, layout.columns, layout.catalog_properties)))

    def set_properties(self, spark: SparkSession, table: str, properties: Mapping[str, str]) -> None:
        has = self._properties(spark, table)
        if any(has.get(name) != value for name, value in properties.items()):
            change = f"ALTER TABLE {self.namespace.identifier(table)} SET TBLPROPERTIES ({listed(properties)})"
            self._commit(spark, table, change)

    def add_columns(self, spark: SparkSession, table: str, columns: Sequence[tuple[Path, Type]]) -> None:
        if needs_mapping(Column(name, kind) for path, kind in columns for name in path):
            self.set_properties(spark, table, MAPPED)
        added = ", ".join(f"{'.'.join(map(quoted, path))} {kind}" for path, kind in columns)
        self._commit(spark, table, f"ALTER TABLE {self.namespace.identifier(table)} ADD COLUMNS ({added})")

    def create_view(self, spark: SparkSession, view: str, table: str, columns: Mapping[str, str]) -> None:
        if view in self._listed:
            return
        select = ", ".join(f"{expression} AS `{name}`" for name, expression in columns.items())
        spark.sql(
            f"CREATE VIEW IF NOT EXISTS {self.namespace.identifier(view)} AS"
            f" SELECT {select} FROM {self.namespace.identifier(table)}"
        )

    def drop(self, spark: SparkSession, table: str) -> None:
        self._listed.discard(table)
        if self.namespace.declared_location(table) is not None and self.exists(spark, table):
            self._commit(spark, table, f"DELETE FROM {self.namespace.identifier(table)}")
        spark.sql(f"DROP TABLE IF EXISTS {self.namespace.identifier(table)}")

    def drop_view(self, spark: SparkSession, view: str) -> None:
        self._listed.discard(view)
        spark.sql(f"DROP VIEW IF EXISTS {self.namespace.identifier(view)}")

    def use(self, spark: SparkSession) -> None:
        spark.sql(f"USE {self.namespace.schema}")

    # -- pin and describe ----------------------------------------------------------------------------------------------

    def newest(self, spark: SparkSession, table: str) -> Commit:
        # A table has at least the commit that created it.
        history = spark.sql(f"DESCRIBE HISTORY {self.namespace.identifier(table)} LIMIT 1")
        ((version, at),) = history.select("version", "timestamp").collect()
        return Commit(version, at)

    def exists(self, spark: SparkSession, table: str) -> bool:
        return spark.catalog.tableExists(self.namespace.identifier(table))

    def columns(self, spark: SparkSession, table: str) -> tuple[Column, ...]:
        return columns_of_json(self.read(spark, table).schema.jsonValue()["fields"])

    def has_change_feed(self, spark: SparkSession, table: str) -> bool:
        return self._properties(spark, table).get(CHANGE_FEED) == "true"

    def table_id(self, spark: SparkSession, table: str) -> str | None:
        (detail,) = spark.sql(f"DESCRIBE DETAIL {self.namespace.identifier(table)}").select("id").collect()
        return str(detail["id"])

    def count(self, spark: SparkSession, table: str, version: int | None = None) -> int:
        return self.read(spark, table, version).count()

    def change_file_count(self, table: str, version: int) -> int | None:  # noqa: ARG002
        return None

    def notes(self, spark: SparkSession, table: str, after: int) -> dict[str, int]:
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
        reader = spark.read if version is None else spark.read.option("versionAsOf", version)
        return reader.table(self.namespace.identifier(table))

    def read_elsewhere(self, spark: SparkSession, source: str) -> DataFrame:
        if "/" in source:
            return spark.read.format("delta").load(source)
        return spark.read.table(source)

    def query(self, spark: SparkSession, table: str, sql: str, **values: Value) -> list[dict[str, Any]]:
        text = with_values(sql, values).replace("{", "{{").replace("}", "}}").replace("FROM t", "FROM {t}")
        rows = spark.sql(text, t=self.read(spark, table)).collect()
        return [{name: _in_utc(value) for name, value in row.asDict().items()} for row in rows]

    def scan(self, spark: SparkSession, table: str, version: int | None = None) -> Scan:
        return SparkScan(self.read(spark, table, version))

    def look_up(self, spark: SparkSession, table: str, texts: Texts, version: int | None = None) -> Frame:
        return having(self.read(spark, table, version), texts, self.limits)

    def changes(self, spark: SparkSession, table: str, first: int = 0, last: int | None = None) -> DataFrame:
        reader = spark.read.option("readChangeFeed", "true").option("startingVersion", first)
        reader = reader if last is None else reader.option("endingVersion", last)
        return reader.table(self.namespace.identifier(table))

    def appended_rows(self, spark: SparkSession, table: str) -> DataFrame | None:
        if self._properties(spark, table).get(TRACKED) != "true":
            return None
        return self.read(spark, table).selectExpr(
            "*",
            "'insert' AS _change_type",
            "_metadata.row_commit_version AS _commit_version",
            "CAST(NULL AS TIMESTAMP) AS _commit_timestamp",
        )

    def stream(self, spark: SparkSession, table: str, first: int, limit: str | None = None) -> DataFrame:
        reader = spark.readStream.option("readChangeFeed", "true").option("startingVersion", str(first))
        if limit is not None:
            reader = reader.option("maxBytesPerTrigger", limit)
        if "/" in table:  # a stream takes no path for a name
            return reader.format("delta").load(table)
        return reader.table(self.namespace.identifier(table))

    def stream_after(self, spark: SparkSession, table: str, version: int, limit: str | None = None) -> DataFrame:
        if not self.namespace.streams_go_on:
            return self.stream(spark, table, version + 1, limit)
        # A stream cannot start at a version that does not exist yet: it starts at this one and leaves it out.
        return self.stream(spark, table, version, limit).where(f"_commit_version > {version}")

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
        with self.namespace.commit_lock(table):
            self._append(spark, rows, table, transaction, note)

    def merge(
        self, spark: SparkSession, rows: Frame, table: str, upsert: Upsert, copied_from: Scan | None = None
    ) -> Merged:
        with self.namespace.commit_lock(table):
            if upsert.sole_writer and self._is_new(spark, table):
                return self._fill(spark, rows, table, upsert, copied_from)
            return self._merge(spark, rows, table, upsert)

    def replace(self, spark: SparkSession, rows: Frame, table: str, condition: str = "true", **values: Value) -> None:
        from pyspark.sql import functions as F

        replaced = F.expr(with_values(condition, values))
        with self.namespace.commit_lock(table):
            writer = _in_spark(spark, rows).writeTo(self.namespace.identifier(table))
            self._retried(lambda: writer.overwrite(replaced))

    def delete(self, spark: SparkSession, table: str, condition: str, **values: Value) -> None:
        statement = f"DELETE FROM {self.namespace.identifier(table)} WHERE {with_values(condition, values)}"
        self._commit(spark, table, statement)

    def update(self, spark: SparkSession, table: str, assignments: str, condition: str, **values: Value) -> None:
        change = with_values(f"SET {assignments} WHERE {condition}", values)
        self._commit(spark, table, f"UPDATE {self.namespace.identifier(table)} {change}")

    def _commit(self, spark: SparkSession, table: str, statement: str) -> None:
        with self.namespace.commit_lock(table):
            self._retried(lambda: spark.sql(statement).collect())

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

    def _is_new(self, spark: SparkSession, table: str) -> bool:
        """Whether no row was ever written to a table."""
        if table in self._filled:
            return False
        self._filled.add(table)
        if self.newest(spark, table).version:
            return False
        scan = self.scan(spark, table)
        return not scan.rows(scan.df.columns[:1], 1).num_rows

    def _properties(self, spark: SparkSession, table: str) -> dict[str, str]:
        rows = spark.sql(f"SHOW TBLPROPERTIES {self.namespace.identifier(table)}").collect()
        return {row["key"]: row["value"] for row in rows}

    def _retried(self, statement: Callable[[], Result]) -> Result:
        return retried(statement, self.statistics.conflicts)


def _in_spark(spark: SparkSession, rows: Frame) -> DataFrame:
    return frame_of(spark, rows) if isinstance(rows, pa.Table) else rows


def _few_texts(rows: Frame, column: str, limits: Limits) -> list[str]:
    """The texts in a column, if they are on the driver and few; else none. Delta skips files that have none of them."""
    if not isinstance(rows, pa.Table) or rows.num_rows > limits.listed_texts or not pt.is_string(rows[column].type):
        return []
    texts: list[str] = rows[column].unique().drop_null().to_pylist()
    return texts


def _in_utc(value: Any) -> Any:
    """PySpark returns local times without a zone."""
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value

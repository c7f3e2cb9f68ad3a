"""The contract for the Delta tables of one application.

Two backends keep it. ``storage.spark`` uses Spark's SQL and DataFrame API and works everywhere. ``storage.native``
works in a folder of this machine: it uses delta-rs for what ``native.supports`` names, and Spark for the rest.
``storage.opening`` chooses the backend of an application, by its namespace. Lags, pages and commands without Spark read
folders of this machine by ``storage.native`` directly.

Each method takes the session it works on: inside ``foreachBatch`` that must be the batch's own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kaspr_delta.functions.column_paths import Path
from kaspr_delta.spec.ddl import Column, Type
from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.limits import Limits
from kaspr_delta.storage.namespace import Namespace
from kaspr_delta.storage.statistics import Statistics

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


Frame: TypeAlias = "pa.Table | DataFrame"
"""Rows: an Arrow table on the driver, or a DataFrame."""

Texts: TypeAlias = Mapping[str, Collection[str]]
"""Texts by column. A row matches if it has one of the texts in one of the columns."""

Value: TypeAlias = str | int | datetime | tuple[str, ...]
"""A value that stands for ``{name}`` in SQL; each backend writes it in its own dialect. Texts are a list for IN."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of a table and the time of its commit."""

    version: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Upsert:
    """How rows are merged into a table: one row for each value of ``on``; it is deleted where ``keep`` is false.

    A stored row that equals the new one in the ``compare`` columns is not touched. The ``also`` columns are written
    when a ``compare`` column differs. ``sole_writer``: no other process writes to the table. Rows of a new table
    are then appended, which costs a fraction of a MERGE.
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


class Scan(Protocol):
    """The rows of a table, at one version or the newest, for which a SQL condition holds."""

    @property
    def reads_files(self) -> bool:
        """Whether the driver reads the rows from files: it takes no Spark job, and a fraction of the time."""

    @property
    def df(self) -> DataFrame:
        """The rows in Spark."""

    def where(self, condition: str, **values: Value) -> Scan:
        """The rows of this scan for which another condition holds too."""

    def rows(self, columns: Sequence[str], limit: int) -> pa.Table:
        """Columns of up to ``limit`` rows, on the driver."""

    def count_by(self, columns: Sequence[str]) -> dict[tuple[Any, ...], int]:
        """The number of rows for each combination of values."""

    def aggregate(self, expressions: str, **values: Value) -> tuple[Any, ...]:
        """The values of SQL aggregates over the rows."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """Delta's transaction identifier: an append is skipped if the table has this version or a greater one."""

    app_id: str
    version: int


class Tables(Protocol):
    """The Delta tables of one namespace.

    Conditions and aggregates are SQL that Spark and DataFusion read alike: names that need no quotes, and ``{name}``
    for each value.
    """

    @property
    def namespace(self) -> Namespace:
        """The schema of the tables."""

    @property
    def statistics(self) -> Statistics:
        """Counts of conflicts, and of native operations that failed."""

    @property
    def limits(self) -> Limits:
        """The sizes at which the engine changes its method."""

    # -- create --------------------------------------------------------------------------------------------------------

    def create_schema(self, spark: SparkSession) -> None:
        """Create the schema unless it exists, and list its tables: ``create`` leaves these alone.

        A user who may only use the schema needs no right to create one.
        """

    def create(self, spark: SparkSession, table: str, layout: Layout) -> None:
        """Create the table, or register one that exists in its folder already."""

    def set_properties(self, spark: SparkSession, table: str, properties: Mapping[str, str]) -> None:
        """Set table properties, unless the table has them."""

    def add_columns(self, spark: SparkSession, table: str, columns: Sequence[tuple[Path, Type]]) -> None:
        """Add columns, and fields of columns, by their paths."""

    def create_view(self, spark: SparkSession, view: str, table: str, columns: Mapping[str, str]) -> None:
        """Create a view over a table unless it exists. ``columns``: column name to SQL expression."""

    def drop(self, spark: SparkSession, table: str) -> None:
        """Remove a table and its rows, for good. The folder of an external table stays, with its history."""

    def drop_view(self, spark: SparkSession, view: str) -> None:
        """Remove a view."""

    def use(self, spark: SparkSession) -> None:
        """Make the schema the current one, so that SQL may name tables without it."""

    # -- pin and describe ----------------------------------------------------------------------------------------------

    def newest(self, spark: SparkSession, table: str) -> Commit:
        """The newest version, to pin for a batch. Raises an error where there is no table."""

    def exists(self, spark: SparkSession, table: str) -> bool:
        """Whether the table exists."""

    def columns(self, spark: SparkSession, table: str) -> tuple[Column, ...]:
        """The columns of the table. In a folder it need not be registered yet."""

    def has_change_feed(self, spark: SparkSession, table: str) -> bool:
        """Whether the change data feed is enabled."""

    def table_id(self, spark: SparkSession, table: str) -> str | None:
        """Delta's id of the table, which changes where it is created anew; None if there is no table."""

    def count(self, spark: SparkSession, table: str, version: int | None = None) -> int:
        """The number of rows at a version, or at the newest one."""

    def change_file_count(self, table: str, version: int) -> int | None:
        """The number of change data files in the commit of a version; None where only a query could tell."""

    def notes(self, spark: SparkSession, table: str, after: int) -> dict[str, int]:
        """The notes of the commits after a version (see ``append``), with the number of rows that each added."""

    # -- read ----------------------------------------------------------------------------------------------------------

    def read(self, spark: SparkSession, table: str, version: int | None = None) -> DataFrame:
        """The rows at a version, or at the newest one."""

    def read_elsewhere(self, spark: SparkSession, source: str) -> DataFrame:
        """The rows of a Delta table outside this namespace: by its folder or URI, or by its name in the catalog."""

    def query(self, spark: SparkSession, table: str, sql: str, **values: Value) -> list[dict[str, Any]]:
        """The rows of a SELECT over a small table, which the SELECT calls ``t``; times are in UTC."""

    def scan(self, spark: SparkSession, table: str, version: int | None = None) -> Scan:
        """A scan of all rows at a version, or at the newest one."""

    def look_up(self, spark: SparkSession, table: str, texts: Texts, version: int | None = None) -> Frame:
        """The rows that match: on the driver where they were read without Spark."""

    def changes(self, spark: SparkSession, table: str, first: int = 0, last: int | None = None) -> DataFrame:
        """The change data feed between two versions, both included; by default up to the newest."""

    def appended_rows(self, spark: SparkSession, table: str) -> DataFrame | None:
        """The rows of an append-only table in the form of its change data feed, without commit times.

        Delta reads the feed only as far back as ``delta.deletedFileRetentionDuration``; this reaches the beginning.
        None for a table without row tracking.
        """

    def stream(self, spark: SparkSession, table: str, first: int, limit: str | None = None) -> DataFrame:
        """The change data feed as a stream, from a version on. A checkpoint that exists goes on where it stopped.

        ``limit`` is the most bytes of a batch (``"64m"``).
        """

    def stream_after(self, spark: SparkSession, table: str, version: int, limit: str | None = None) -> DataFrame:
        """The same from ``version + 1`` on. In a folder ``version + 1`` need not exist yet; over a catalog it must."""

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

    def merge(
        self, spark: SparkSession, rows: Frame, table: str, upsert: Upsert, copied_from: Scan | None = None
    ) -> Merged:
        """Merge rows into a table in one commit. Rows have the columns of ``upsert`` and its boolean ``keep``.

        ``copied_from`` is a scan of another table that gives the rows with ``keep``: a backend may copy them into a new
        table instead of writing ``rows``.
        """

    def replace(self, spark: SparkSession, rows: Frame, table: str, condition: str = "true", **values: Value) -> None:
        """Replace all rows for which a condition holds by these, in one commit."""

    def delete(self, spark: SparkSession, table: str, condition: str, **values: Value) -> None:
        """Delete the rows for which a condition holds."""

    def update(self, spark: SparkSession, table: str, assignments: str, condition: str, **values: Value) -> None:
        """Change the rows for which a condition holds."""

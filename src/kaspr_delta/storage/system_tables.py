"""The system's own tables, which are small and read whole: through Spark, or without it on this machine's disk."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.delta_rs import DeltaRs
from kaspr_delta.storage.layout import SYSTEM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.storage.delta import Delta


class SystemTables(Protocol):
    """The tables whose names start with ``_kaspr``."""

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table; none where it is not there."""
        ...

    def replace(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Put these rows, in the order of the table's columns, in the place of all."""
        ...

    def append(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Append rows."""
        ...

    def version(self, table: str) -> int | None:
        """The table's newest version; None where it is not there."""
        ...

    def alone(self, table: str) -> contextlib.AbstractContextManager[object]:
        """Held by who reads a table in order to write it."""
        ...


@dataclass(frozen=True, slots=True)
class SparkSystemTables:
    """The tables through a Spark session. They must be there."""

    spark: SparkSession
    delta: Delta

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.query(table, "SELECT * FROM t")

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        """What a SELECT over a table, a log too, gives; ``t`` stands for it. Elsewhere delta-rs reads it: plain SQL."""
        rows = self.spark.sql(sql.replace("FROM t", "FROM {t}"), t=self.delta.read(self.spark, table))
        found = (row.asDict() for row in rows.collect())
        return [{name: _in_utc(value) for name, value in row.items()} for row in found]

    def replace(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.delta.replace(self._frame(table, rows), table)

    def append(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.delta.append(self._frame(table, rows), table)

    def version(self, table: str) -> int | None:
        return self.delta.newest(self.spark, table).version

    def alone(self, table: str) -> contextlib.AbstractContextManager[object]:
        return self.delta.namespace.turn(table)

    def _frame(self, table: str, rows: Sequence[tuple[Any, ...]]) -> Any:
        return self.spark.createDataFrame(list(rows), SYSTEM[table].columns).coalesce(1)


@dataclass(frozen=True, slots=True)
class LocalSystemTables:
    """The tables of a folder on this machine, made when they are first written."""

    delta: DeltaRs

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.delta.rows(table)

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        """What a SELECT over a table, a log too, gives; ``t`` stands for it."""
        return self.delta.rows(table, sql)

    def replace(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.delta.ensure(table, SYSTEM[table])
        self.delta.replace(table, _arrow(table, rows))

    def append(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.delta.ensure(table, SYSTEM[table])
        self.delta.append(table, _arrow(table, rows))

    def version(self, table: str) -> int | None:
        head = self.delta.head(table)
        return None if head is None else head.version

    def alone(self, table: str) -> contextlib.AbstractContextManager[object]:
        return self.delta.namespace.turn(table)


def system_tables(spark: SparkSession, delta: Delta) -> SparkSystemTables | LocalSystemTables:
    """The system's tables of a namespace: what lies on this machine's disk needs no Spark jobs."""
    if delta.namespace.location("") is None:
        return SparkSystemTables(spark, delta)
    return LocalSystemTables(DeltaRs(delta.namespace))


def note(spark: SparkSession, delta: Delta, table: str, row: tuple[Any, ...]) -> None:
    """Append one row to a table, which must be there."""
    delta.append_held(spark, _arrow(table, [row]), table)


def _in_utc(value: Any) -> Any:
    """Spark gives moments in local time, without saying so."""
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value


def _arrow(table: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    schema = arrow_schema(SYSTEM[table].columns)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema)

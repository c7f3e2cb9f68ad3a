"""The system's own tables through a Spark session."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaspr_delta.storage.layout import SYSTEM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kaspr_delta.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class SparkSystemTables:
    """Implements SystemTables. The tables must exist."""

    spark: SparkSession
    tables: Tables

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.tables.query(self.spark, table, "SELECT * FROM t")

    def replace(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.tables.replace(self.spark, self._frame(table, rows), table)

    def append(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.tables.append(self.spark, self._frame(table, rows), table)

    def version(self, table: str) -> int | None:
        return self.tables.newest(self.spark, table).version

    def alone(self, table: str) -> contextlib.AbstractContextManager[object]:
        return self.tables.namespace.table_group_lock(table)

    def _frame(self, table: str, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
        return self.spark.createDataFrame(list(rows), SYSTEM[table].columns).coalesce(1)

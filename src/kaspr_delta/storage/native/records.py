"""Records of topics and channels in a folder of this machine, for a retry of dead letters without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.sql_text import literal, moment_literal
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.records import RowsByName
from kaspr_delta.storage.spark.sql_text import value_literal
from kaspr_delta.storage.system_tables import SystemTables
from kaspr_delta.storage.tables import Value


@dataclass(frozen=True, slots=True)
class NativeRecords:
    """Implements Records."""

    delta: DeltaRs

    many_transactions: ClassVar[bool] = True

    @property
    def system(self) -> SystemTables:
        return NativeSystemTables(self.delta)

    @staticmethod
    def value(value: Value) -> str:
        return value_literal(value, literal, moment_literal)

    def rows(self, table: str, columns: Sequence[str], condition: str) -> list[dict[str, Any]]:
        listed = ", ".join(map(quoted, columns))
        return self.delta.rows(table, f"SELECT {listed} FROM t WHERE {condition}")

    def append_once(self, table: str, rows: Callable[[], RowsByName]) -> int:
        return self.delta.append_once(table, rows)

    def delete(self, table: str, condition: str) -> None:
        self.delta.delete(table, condition)

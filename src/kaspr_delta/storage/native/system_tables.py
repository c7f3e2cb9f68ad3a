"""The system's own tables by delta-rs: in a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kaspr_delta.errors import SetupError
from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.dialect import DATAFUSION
from kaspr_delta.storage.layout import SYSTEM
from kaspr_delta.storage.namespace import lock_in_time
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.readable import damage_errors, reason_of
from kaspr_delta.storage.system_tables import RetryTables, RowsByName, arrow_rows

# Seconds to wait for another process: that long a lease lasts that a killed one left, and a bit.
_PATIENCE = 60.0


@dataclass(frozen=True)
class NativeSystemTables(RetryTables):
    """Implements RetryTables."""

    delta: DeltaRs

    dialect = DATAFUSION
    many_transactions: ClassVar[bool] = True

    def rows(self, table: str, clauses: str = "") -> list[dict[str, Any]]:
        return self.query(table, f"SELECT * FROM t {clauses}")

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        """The same. Raises SetupError for a damaged table."""
        try:
            return self.delta.rows(table, sql)
        except damage_errors() as error:
            where = self.delta.folder(table)
            raise SetupError(f"{table} is damaged: {reason_of(error)} (restore its files in {where})") from error

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
        return self.query(table, f"SELECT {', '.join(map(quoted, columns))} FROM t WHERE {condition}")

    def append_once(self, table: str, rows: Callable[[], RowsByName]) -> int:
        return self.delta.append_once(table, rows)

    def delete(self, table: str, condition: str) -> None:
        self.delta.delete(table, condition)

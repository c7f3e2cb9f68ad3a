"""The system's own tables in a folder of this machine, created when they are first written."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kaspr_delta.storage.layout import SYSTEM
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.system_tables import arrow_rows


@dataclass(frozen=True, slots=True)
class NativeSystemTables:
    """Implements SystemTables."""

    delta: DeltaRs

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.delta.rows(table)

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        return self.delta.rows(table, sql)

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
        return self.delta.namespace.table_group_lock(table)

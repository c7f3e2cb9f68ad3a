"""A scan of a table in a folder by delta-rs, or by Spark where delta-rs does not support the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.native.attempts import Attempts
from kaspr_delta.storage.native.delta_rs import copy_to, selected
from kaspr_delta.storage.native.sql_text import with_values
from kaspr_delta.storage.tables import Scan

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from kaspr_delta.storage.tables import Transaction, Value


@dataclass(frozen=True, kw_only=True)
class NativeScan(Scan):
    """Reads without Spark what delta-rs supports."""

    attempts: Attempts
    table: str
    version: int | None = None

    @property
    def reads_files(self) -> bool:
        return self.attempts.supports("scan", self.table, self.version)

    def rows(self, columns: Sequence[str], limit: int) -> pa.Table:
        found = self._selected(_listed(columns), f"LIMIT {limit}")
        return super().rows(columns, limit) if found is None else found

    def count_by(self, columns: Sequence[str]) -> dict[tuple[Any, ...], int]:
        by = _listed(columns)
        counted = self._selected(f"{by}, count(*) AS counted", f"GROUP BY {by}")
        if counted is None:
            return super().count_by(columns)
        values = zip(*(counted[name].to_pylist() for name in columns), strict=True)
        return dict(zip(values, counted["counted"].to_pylist(), strict=True))

    def aggregate(self, expressions: str, **values: Value) -> tuple[Any, ...]:
        found = self._selected(with_values(expressions, values))
        if found is None:
            return super().aggregate(expressions, **values)
        return tuple(column[0].as_py() for column in found.columns)

    def copy_to(self, opened: DeltaTable, columns: Sequence[str], transaction: Transaction) -> bool | None:
        """Append columns of the rows to an opened table (see ``delta_rs.copy_to``); None where only Spark can."""
        sql = self._sql(_listed(columns))
        return self.attempts.attempt(
            "scan", self.table, lambda source: copy_to(opened, sql, source, transaction), self.version
        )

    def _sql(self, select: str, then: str = "") -> str:
        wanted = " AND ".join(f"({with_values(*condition)})" for condition in self.conditions) or "true"
        return f"SELECT {select} FROM t WHERE {wanted} {then}"

    def _selected(self, select: str, then: str = "") -> pa.Table | None:
        sql = self._sql(select, then)
        return self.attempts.attempt(
            "scan", self.table, lambda opened: selected(sql, t=opened).read_all(), self.version
        )


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(quoted, columns))

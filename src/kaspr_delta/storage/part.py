"""A part of a table on this machine's disk, read, counted and copied without Spark: in a fraction of the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from kaspr_delta.storage.delta_rs import DeltaRs, quoted
from kaspr_delta.storage.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a table, at a version or the newest, for which a condition holds: SQL as ``DeltaRs.query`` has it.

    What only Spark can tell is None: elsewhere than on this machine's disk, or of a table with types or features that
    delta-rs does not know.
    """

    delta: DeltaRs
    table: str
    condition: str
    version: int | None = None

    def where(self, condition: str) -> Part:
        """The rows of it for which another condition holds too."""
        return replace(self, condition=f"{self.condition} AND ({condition})")

    def read(self, columns: Sequence[str], limit: int) -> pa.Table | None:
        """Columns of up to so many rows."""
        return self._selected(_listed(columns), f"LIMIT {limit}")

    def count_by(self, columns: Sequence[str]) -> dict[tuple[Any, ...], int] | None:
        """How many rows there are of each combination of values."""
        by = _listed(columns)
        counted = self._selected(f"{by}, count(*) AS counted", f"GROUP BY {by}")
        if counted is None:
            return None
        values = zip(*(counted[name].to_pylist() for name in columns), strict=True)
        return dict(zip(values, counted["counted"].to_pylist(), strict=True))

    def told(self, aggregates: str) -> tuple[Any, ...] | None:
        """What aggregates, as SQL has them, tell of the rows."""
        found = self._selected(aggregates)
        return None if found is None else tuple(column[0].as_py() for column in found.columns)

    def copied(self, columns: Sequence[str], table: str, transaction: Transaction) -> bool:
        """Append columns of the rows to another table (see ``DeltaRs.copy``); False where only Spark can."""
        try:
            self.delta.copy(self.table, self._sql(_listed(columns)), table, transaction, self.version)
        except Exception:  # noqa: BLE001  whatever it was: Spark can, or says what is wrong
            return False
        return True

    def _sql(self, select: str, then: str = "") -> str:
        return f"SELECT {select} FROM t WHERE {self.condition} {then}"

    def _selected(self, select: str, then: str = "") -> pa.Table | None:
        try:
            return pa.Table.from_batches(self.delta.query(self.table, self._sql(select, then), self.version))
        except Exception:  # noqa: BLE001  whatever it was: Spark can tell, or says what is wrong
            return None


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(quoted, columns))

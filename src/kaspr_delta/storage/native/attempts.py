"""Operations of delta-rs that Spark can do instead: where the table is not supported, and where delta-rs fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kaspr_delta.errors import DamagedTableError, first_line
from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.dialect import DATAFUSION
from kaspr_delta.storage.native.delta_rs import DeltaRs, copy_to, in_spite_of_others, is_refused, selected
from kaspr_delta.storage.native.kept import OpenTable
from kaspr_delta.storage.native.supports import Operation, supports
from kaspr_delta.storage.statistics import NativeFailure, Statistics
from kaspr_delta.storage.tables import Scan, Transaction, Value

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


Result = TypeVar("Result")

_log = logging.getLogger(__name__)
_CAUSE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Attempts:
    """Tries delta-rs first. A failure is logged and counted, and the caller lets Spark do the operation."""

    delta: DeltaRs
    statistics: Statistics

    def attempt(
        self,
        operation: Operation,
        table: str,
        action: Callable[[DeltaTable], Result | None],
        version: int | None = None,
    ) -> Result | None:
        """The result of an operation; None if Spark has to do it."""
        return self.attempt_with(operation, table, lambda one: action(one.table), version)

    def attempt_with(
        self,
        operation: Operation,
        table: str,
        action: Callable[[OpenTable], Result | None],
        version: int | None = None,
        *,
        repeatable: bool = True,
    ) -> Result | None:
        """The same for an action on the opened table and what is known of it.

        Its error is raised unless the operation is ``repeatable``: it may have come after the commit. DamagedTableError
        is raised in any case.
        """

        def attempted() -> Result | None:
            if not self.delta.has_folder(table):
                return None
            with self.delta.lent(table, version) as one:
                return None if one is None or not supports(operation, one.table) else action(one)

        try:
            return in_spite_of_others(attempted) if repeatable else attempted()
        except DamagedTableError:
            raise
        except Exception as error:
            if is_refused(error):
                return None
            self._note(operation, table, error, "so Spark does it" if repeatable else "so its error is raised")
            if not repeatable:
                raise
            return None

    def supports(self, operation: Operation, table: str, version: int | None = None) -> bool:
        """Whether delta-rs does an operation on a table."""
        return self.attempt(operation, table, lambda _: True, version) is True

    def _note(self, operation: Operation, table: str, error: Exception, consequence: str) -> None:
        _log.warning("delta-rs failed at %s of table %s, %s", operation, table, consequence, exc_info=error)
        cause = f"{type(error).__name__}: {first_line(error)}"[:_CAUSE_CHARACTERS]
        self.statistics.native_failures[NativeFailure(operation, table, cause)] += 1


@dataclass(frozen=True, kw_only=True)
class NativeScan(Scan):
    """Reads without Spark what delta-rs supports."""

    attempts: Attempts
    table: str
    version: int | None = None

    @property
    def reads_files(self) -> bool:
        return self.attempts.supports("scan", self.table, self.version)

    def rows(self, columns: Sequence[str], limit: int | None = None) -> pa.Table:
        found = self._selected(_listed(columns), "" if limit is None else f"LIMIT {limit}")
        return super().rows(columns, limit) if found is None else found

    def count_by(self, columns: Sequence[str]) -> dict[tuple[Any, ...], int]:
        by = _listed(columns)
        counted = self._selected(f"{by}, count(*) AS counted", f"GROUP BY {by}")
        if counted is None:
            return super().count_by(columns)
        values = zip(*(counted[name].to_pylist() for name in columns), strict=True)
        return dict(zip(values, counted["counted"].to_pylist(), strict=True))

    def aggregate(self, expressions: str, **values: Value) -> tuple[Any, ...]:
        found = self._selected(DATAFUSION.filled(expressions, values))
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
        wanted = " AND ".join(f"({DATAFUSION.filled(*condition)})" for condition in self.conditions) or "true"
        return f"SELECT {select} FROM t WHERE {wanted} {then}"

    def _selected(self, select: str, then: str = "") -> pa.Table | None:
        sql = self._sql(select, then)
        return self.attempts.attempt(
            "scan", self.table, lambda opened: selected(sql, t=opened).read_all(), self.version
        )


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(quoted, columns))

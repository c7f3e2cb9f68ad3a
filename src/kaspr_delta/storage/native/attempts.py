"""Operations of delta-rs that Spark can do instead: where the table is not supported, and where delta-rs fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kaspr_delta.storage.native.delta_rs import DeltaRs, is_refused
from kaspr_delta.storage.native.supports import Operation, supports
from kaspr_delta.storage.statistics import NativeFailure, Statistics

if TYPE_CHECKING:
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
        *,
        repeatable: bool = True,
    ) -> Result | None:
        """The result of an operation; None if Spark has to do it. An error is raised if it may not be repeated."""
        try:
            opened = self.delta.opened(table, version) if self.delta.has_folder(table) else None
            return None if opened is None or not supports(operation, opened) else action(opened)
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
        first_line = next(iter(str(error).splitlines()), "")
        cause = f"{type(error).__name__}: {first_line}"[:_CAUSE_CHARACTERS]
        self.statistics.native_failures[NativeFailure(operation, table, cause)] += 1

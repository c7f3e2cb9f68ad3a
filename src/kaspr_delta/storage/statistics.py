"""Counts that ``storage.tables`` keeps for the resource that uses it, which reports them by batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class NativeFailure(NamedTuple):
    """An operation of delta-rs that failed although the table is supported; Spark did it, if it may be repeated."""

    operation: str
    table: str
    cause: str


@dataclass(slots=True)
class Statistics:
    """Counts since they were last taken.

    ``conflicts``: statements that ran again because another commit came first. ``native_failures``: see NativeFailure.
    """

    conflicts: int = 0
    native_failures: Counter[NativeFailure] = field(default_factory=Counter)

    def drain(self) -> Statistics:
        """Return the counts and reset them."""
        taken = Statistics(self.conflicts, self.native_failures)
        self.conflicts, self.native_failures = 0, Counter()
        return taken

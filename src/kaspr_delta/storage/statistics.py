"""Counts that a backend of ``storage.tables`` keeps for the resource that uses it, which reports them by batch."""

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
class Counted:
    """A count since it was last taken."""

    count: int = 0

    def add(self, more: int) -> None:
        """Increase the count."""
        self.count += more

    def drain(self) -> int:
        """Return the count and reset it."""
        count, self.count = self.count, 0
        return count


@dataclass(frozen=True, slots=True)
class Statistics:
    """The counts of one backend.

    ``conflicts``: statements that ran again because another commit came first. ``native_failures``: see NativeFailure.
    """

    conflicts: Counted = field(default_factory=Counted)
    native_failures: Counter[NativeFailure] = field(default_factory=Counter)

    def drain_native_failures(self) -> dict[NativeFailure, int]:
        """Return the failures with how often each happened, and forget them."""
        taken = dict(self.native_failures)
        self.native_failures.clear()
        return taken

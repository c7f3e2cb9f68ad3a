"""Statements that run again after a conflict or a lost answer, and the counts of conflicts and failures.

``storage.tables`` counts for the resource that uses it, which reports the counts by batch.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

Result = TypeVar("Result")

# Writers of one table of a catalog, which has no lock of ours, each need some commits of the others to fail: three that
# merge again and again ran out of six attempts. Pauses grow to _LONGEST_PAUSE seconds, and differ between writers.
_CONFLICT_ATTEMPTS = 12
_LONGEST_PAUSE = 8.0
_LOST_ANSWERS = 2
# Delta's error classes for "another commit came first"; the statement may run again on the new version.
_CONFLICTS = (
    "DELTA_CONCURRENT_",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "ConcurrentAppendException",
    "ConcurrentDelete",
)


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


def retried(statement: Callable[[], Result], statistics: Statistics) -> Result:
    """Run a statement again, after growing pauses, while other commits come first."""
    from pyspark.errors import PySparkException

    for attempt in range(1, _CONFLICT_ATTEMPTS):
        try:
            return statement()
        except PySparkException as error:
            if not any(sign in str(error) for sign in _CONFLICTS):
                raise
            statistics.conflicts += 1
            time.sleep(min(0.1 * 2**attempt, _LONGEST_PAUSE) * random.uniform(0.75, 1.25))  # noqa: S311  no secret
    return statement()


def asked_again(question: Callable[[], Result]) -> Result:
    """The answer of a catalog. A long answer breaks off now and then, and the client raises errors of any kind."""
    for _ in range(_LOST_ANSWERS):
        with contextlib.suppress(Exception):
            return question()
    return question()
